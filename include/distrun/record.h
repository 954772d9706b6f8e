// Reports why a worker crashed: the @record of Python, for a C++ program's main function.
//
//     int train(int argc, char** argv);
//
//     int main(int argc, char** argv) { return distrun::record(train, argc, argv); }
//
// These three count as failures; returning any value and calling exit() do not.
//
//     failure                                  text                           process ends with
//     an uncaught exception, any thread        "std::runtime_error: …"        exit status 1
//     std::terminate() without an exception    "std::terminate: …"            SIGABRT
//     SIGSEGV SIGBUS SIGFPE SIGILL SIGSYS      "SIGSEGV: no memory at 0x8"    that signal, and
//       SIGABRT (assert, abort), any thread                                   its core
//
// The text and a backtrace go to stderr, and replace the contents of the file that
// TORCHELASTIC_ERROR_FILE names.  `distrun launch` and torchrun set it, and show the text in their
// summary.
//
// The backtrace of an exception starts at the throw, because an exception that nothing catches ends
// the process before the stack is unwound.  Therefore
// - call record() outside any try block and noexcept function, which would hide the exception;
// - no destructor and no atexit() function runs.  stdout and std::cout are flushed.
//
// Functions are named without -g or -rdynamic, including static ones; a stripped program names only
// what it exports (-rdynamic).  For lines, build with -g and pass the number behind the file's name
// to `addr2line -Cfe FILE`.  After a signal, stderr has mangled names (`c++filt`); the summary of
// `distrun launch` has them demangled.
//
// A signal handler that exists when record() is called stays (a sanitizer's, for example), and a
// later one replaces record()'s.  SIGTERM and SIGINT are left alone.  The handlers remain after
// record() returns.  In a handler record() allocates no memory and takes no lock.  It writes the
// report before it reads the stack, which may be damaged, and again with the stack; if that crashes
// or takes ten seconds, the process ends by the first signal.  A stack overflow is reported for the
// thread that called record(); in other threads it leaves no text.
//
// PyTorch source: torch/distributed/elastic/multiprocessing/errors/__init__.py.
#pragma once

namespace distrun {

// Runs `main_fn` and returns its result.  Reads TORCHELASTIC_ERROR_FILE and RANK.
//
// Thread safety: call it once, in the main thread, before other threads start.
int record(int (*main_fn)(int argc, char** argv), int argc, char** argv);

}  // namespace distrun
