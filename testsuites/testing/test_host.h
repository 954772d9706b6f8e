// The test host of a program that links LibTorch: it loads LibTorch once and forks ranks
// (harness/host/test_host.h).
//
// A fork copies only one thread. So before each fork the host checks that it has one thread, has
// run no tensor operation and has used no GPU; a test program's namespace-scope code can violate
// this.
#pragma once

namespace distrun {

// Serves the runner until the socket closes, then exits.
[[noreturn]] void serve_registered_tests(int socket);

}  // namespace distrun
