// record runs the main function of a worker and, where it fails, leaves behind why: what Python's
// @record (torch/distributed/elastic/multiprocessing/errors) is to a Python program.
//
//     int train(int argc, char** argv);
//
//     int main(int argc, char** argv) { return distrun::record(train, argc, argv); }
//
// Three ends count as failures; returning, whatever the value, and exit() do not.
//
//     what happens                             text                           ends with
//     an exception that nobody catches,        "std::runtime_error: …"        exit status 1
//       in any thread
//     std::terminate() without an exception    "std::terminate: …"            SIGABRT
//     SIGSEGV SIGBUS SIGFPE SIGILL SIGSYS      "SIGSEGV: no memory at 0x8"    that signal, and
//       SIGABRT (assert, abort), any thread                                   its core
//
// The text and a backtrace go to stderr and, where the variable TORCHELASTIC_ERROR_FILE names a
// file, into that, replacing what is there: `distrun launch` and torchrun set it, and show the text
// in their summary.  Nothing is needed of distrun for that: a program that is run without a
// launcher only writes to stderr.
//
// The backtrace of an exception is that of the throw.  It is there because nobody catches: an
// exception that finds no handler ends the process where it is thrown, before the stack is unwound.
// So
// - call record() outside of any try block and noexcept function: one that catches takes the
//   exception away, and record() never sees it;
// - no destructor runs, nor what atexit() was told, as whenever an exception leaves main(): other
//   threads still run, and would find their world gone.  stdout and std::cout are flushed.
//
// Names: functions are named, static ones too, with neither -g nor -rdynamic; a program that has
// been stripped (`strip`, `-s`) names only what it exports (-rdynamic).  For lines, build with -g
// and give `addr2line -Cfe FILE` the number behind the file's name.
// After a signal, stderr has the names as the linker knows them (`c++filt`); the summary of
// `distrun launch` has them in C++.
//
// Signals: a handler that is there when record() is called stays (a sanitizer's, for one), and one
// that is installed later replaces record()'s.  SIGTERM and SIGINT are left alone.  The handlers
// stay in place after record() has returned, for what the end of the program does.  While it
// handles a signal, the process takes no memory and waits for no lock; the report is written
// before the stack is looked at, which may be damaged, and again with it; a crash in the midst of
// that, or ten seconds that are over, end the process by the first signal with what has been
// written.  A stack that has overflowed is reported for the thread that called record(); another
// thread's end by SIGSEGV then leaves no text.
//
// Threads: call it once, in the main thread, before others are started.
#pragma once

namespace distrun {

// What `main_fn` returns.  Reads TORCHELASTIC_ERROR_FILE and RANK.
int record(int (*main_fn)(int argc, char** argv), int argc, char** argv);

}  // namespace distrun
