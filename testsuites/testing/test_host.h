// The test host: a process that loads LibTorch once and forks ranks as the runner asks
// (host_messages.h).
//
// A fork copies only one thread.  So before each fork the host checks that it has one thread, has
// run no tensor operation and has used no GPU.  Namespace-scope code of a test program can break
// this.
#pragma once

namespace distrun {

// Serves the runner until the socket closes, then exits; remaining ranks get SIGKILL.
[[noreturn]] void serve_tests(int socket);

}  // namespace distrun
