// The test host: a process that has loaded LibTorch once, and forks the ranks of tests as the
// runner asks (host_messages.h).
//
// A fork takes one thread with it: so the host has one, has made no tensor operation and has
// touched no GPU, and looks at that before each fork.  What breaks it is something at namespace
// scope of a test program.
#pragma once

namespace distrun {

// Serves the runner at the other end of the socket `socket` until that is gone, and ends the
// process then: the ranks that are left get SIGKILL.
[[noreturn]] void serve_tests(int socket);

}  // namespace distrun
