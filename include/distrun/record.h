// record() reports why a worker crashed, as @record of torch.distributed.elastic does in Python.
//
//     int train(int argc, char** argv);
//
//     int main(int argc, char** argv) { return distrun::record(train, argc, argv); }
//
// record() calls the function that you pass to it, here train().  It reports these failures in any
// thread:
//
//     failure                                  text                           process ends with
//     an exception that is not caught          "std::runtime_error: …"        exit status 1
//     std::terminate() without an exception    "std::terminate: …"            SIGABRT
//     SIGSEGV SIGBUS SIGFPE SIGILL SIGSYS      "SIGSEGV: no memory at 0x8"    that signal, with
//       SIGABRT (assert, abort)                                               a core dump
//
// record() does not report a call of exit(), or a value that train() returns.
//
// record() writes the text and a backtrace to stderr.  It also writes them to the file that
// TORCHELASTIC_ERROR_FILE names.  The previous contents of the file are replaced.  `distrun launch`
// and torchrun set this variable, and show the text in their summary.
//
// The backtrace of an exception starts at the throw.  If no handler catches the exception, the
// process ends before the stack is unwound.  Therefore, no destructor and no atexit() function
// runs.  record() flushes stdout and std::cout.  Do not call record() in a try block.  If a handler
// of this block catches the exception, record() cannot report it.
//
// The backtrace has at most 64 functions.  It shows the names of all functions, including static
// functions, even without -g and -rdynamic.  In a stripped program, it shows only the names of
// functions that were exported with -rdynamic.  To find the source line of
// `train()+0x1c (worker+0x12ab)`, build with -g and run `addr2line -Cfe worker 0x12ab`.  After a
// signal, the names on stderr are mangled.  `c++filt` makes them readable.  The summary of
// `distrun launch` shows readable names.
//
// record() does not replace signal handlers that exist already, such as those of a sanitizer.  A
// handler that the program installs later replaces the handler of record().  record() does not
// handle SIGTERM and SIGINT.  The handlers of record() remain installed after record() returns.
//
// A signal handler of record() allocates no memory and takes no lock.  The handler first writes a
// report without the stack, because it may crash when it reads a damaged stack.  After that, it
// adds the stack.  If the handler itself crashes or takes more than ten seconds, the original
// signal ends the process.  A stack overflow is reported only in the thread that called record().
//
// PyTorch source: torch/distributed/elastic/multiprocessing/errors/__init__.py.
#pragma once

namespace distrun {

// Reads TORCHELASTIC_ERROR_FILE and RANK.  Then runs `main_fn` and returns its result.
//
// Thread safety: call record() once, in the main thread, before other threads start.
// Cost: about 100 KiB of memory, and 256 KiB of address space for the stack of its signal handlers.
// No thread is started.
int record(int (*main_fn)(int argc, char** argv), int argc, char** argv);

}  // namespace distrun
