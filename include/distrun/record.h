// Reports why a worker crashed, as @record of torch.distributed.elastic does in Python.
//
//     int train(int argc, char** argv);
//
//     int main(int argc, char** argv) { return distrun::record(train, argc, argv); }
//
// record() reports these failures in any thread:
//
//     failure                                  text                           process ends with
//     an exception that is not caught          "std::runtime_error: …"        exit status 1
//     std::terminate() without an exception    "std::terminate: …"            SIGABRT
//     SIGSEGV SIGBUS SIGFPE SIGILL SIGSYS      "SIGSEGV: no memory at 0x8"    that signal, with
//       SIGABRT (assert, abort)                                               a core dump
//
// It does not report a call of exit() or a value that `main_fn` returns.
//
// record() writes the text and a backtrace to stderr.  It also writes them to the file that
// TORCHELASTIC_ERROR_FILE names, and replaces the contents of the file.  `distrun launch` and
// torchrun set this variable, and show the text in their summary.
//
// The backtrace of an exception starts at the throw, because an exception that nothing catches ends
// the process before the stack is unwound.  Therefore no destructor and no atexit() function runs,
// but record() flushes stdout and std::cout.  Do not call record() in a try block: if a handler
// there catches the exception, record() cannot report it.
//
// The backtrace has at most 64 functions.  It shows their names, including those of static
// functions, and needs neither -g nor -rdynamic for that.  If the program is stripped, the
// backtrace shows only the names of functions that the program exports (-rdynamic).  To find the
// source line of `train()+0x1c (worker+0x12ab)`, build with -g and run
// `addr2line -Cfe worker 0x12ab`.  After a signal, stderr shows mangled names, which `c++filt`
// makes readable.  The summary of `distrun launch` shows readable names.
//
// record() does not replace signal handlers that exist already, such as those of a sanitizer.  A
// handler that the program installs later replaces the handler of record().  record() does not
// handle SIGTERM and SIGINT.  Its handlers remain installed after it returns.
//
// A signal handler of record() allocates no memory and takes no lock.  It first writes the report
// without the stack, because reading a damaged stack may crash.  It then writes the report with the
// stack.  If the report itself crashes or takes more than ten seconds, the original signal ends the
// process.  A stack overflow is reported only in the thread that called record().
//
// PyTorch source: torch/distributed/elastic/multiprocessing/errors/__init__.py.
#pragma once

namespace distrun {

// Runs `main_fn` and returns its result.  Reads TORCHELASTIC_ERROR_FILE and RANK before that.
//
// Thread safety: call it once, in the main thread, before other threads start.
// Cost: about 100 KiB of memory, and 256 KiB of address space for the stack of its signal handlers.
// No thread is started.
int record(int (*main_fn)(int argc, char** argv), int argc, char** argv);

}  // namespace distrun
