// The test host: a process that loads LibTorch once and forks ranks for the runner
// (host_messages.h).
//
// A fork copies only one thread. So before each fork the host checks that it has one thread, has
// run no tensor operation and has used no GPU; a test program's namespace-scope code can violate
// this.
#pragma once

namespace distrun {

// Serves the runner until the socket closes, then exits; remaining ranks get SIGKILL.
[[noreturn]] void serve_tests(int socket);

}  // namespace distrun
