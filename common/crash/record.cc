#include "distrun/record.h"

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/crash/backtrace.h"
#include "common/crash/error_file.h"
#include "common/crash/thrown.h"
#include "common/os/environment.h"
#include "common/os/write_all.h"
#include "common/text/demangle.h"
#include "common/text/fixed_text.h"
#include "common/text/parse_number.h"
#include "common/units.h"
#include "distrun/process_end.h"

namespace distrun {

namespace {

constexpr auto kSignals = std::to_array({SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS});
constexpr unsigned kReportSecondsMax = 10;
constexpr int kException = 0;  // Not a signal: the process exits with status 1.

// Set up by record() and never freed: a program may still fail while it exits.
struct Recorder {
  std::string path;  // Empty: no file.
  std::optional<int> rank;
  std::atomic<pid_t> reporter{0};  // The reporting thread: the first that fails.
  std::atomic<int> cause{kException};
  Backtrace backtrace;
  FixedText<1024> message;
  Backtrace::Text stack;
  FixedText<48 * kKiB> output;
};
Recorder* recorder = nullptr;

pid_t this_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

void set_default(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
}

// Ends the process at once, even inside the handler of `signal`.
[[noreturn]] void die(int cause) {
  if (cause == kException) ::_exit(1);
  set_default(cause);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, cause);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::syscall(SYS_tgkill, ::getpid(), this_thread(), cause);
  ::_exit(128 + cause);  // A container's first process ignores its own signals.
}

void on_time_over(int) { die(recorder->cause); }

// From here the process ends in bounded time, with the status of its first failure.
void begin_report(int cause) {
  pid_t nobody = 0;
  if (!recorder->reporter.compare_exchange_strong(nobody, this_thread())) {
    // If reporting itself fails, exit with what is written; another failing thread must not cut it
    // short.
    if (nobody == this_thread()) die(recorder->cause);
    timespec rest{.tv_sec = kReportSecondsMax + 1, .tv_nsec = 0};
    while (::nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
    die(cause);
  }
  recorder->cause = cause;
  struct sigaction action {};
  action.sa_handler = on_time_over;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);  // stderr may be closed.
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::alarm(kReportSecondsMax);
}

// ---- after a signal: allocates no memory

std::string_view meaning(int signal, int code) {
  switch (signal) {
    case SIGSEGV:
      return code == SEGV_ACCERR ? "no access to memory" : "no memory";
    case SIGBUS:
      return "nothing is mapped";
    case SIGFPE:
      return code == FPE_INTDIV ? "integer division by zero" : "arithmetic error";
    case SIGILL:
      return "illegal instruction";
    case SIGSYS:
      return "system call that is not allowed";
    default:
      return "fatal signal";
  }
}

void describe(int signal, const siginfo_t& info, FixedText<1024>& text) {
  const char* name = ::sigabbrev_np(signal);
  text.add("SIG").add(name != nullptr ? name : "?").add(": ");
  const bool sent = info.si_code == SI_USER || info.si_code == SI_QUEUE || info.si_code == SI_TKILL;
  if (sent && info.si_pid == ::getpid()) {
    text.add(signal == SIGABRT ? "the program called abort()" : "the program sent it to itself");
  } else if (sent) {
    text.add("sent by process ").add_number(info.si_pid);
  } else if (info.si_code == SI_KERNEL) {  // A non-canonical address: si_addr is not set.
    text.add(meaning(signal, info.si_code)).add(" at a non-canonical address");
  } else {
    text.add(meaning(signal, info.si_code));
    if (signal != SIGSYS) {
      text.add(" at 0x").add_hex(reinterpret_cast<std::uintptr_t>(info.si_addr));
    }
  }
}

// The format is in error_file.h.
void write_file(int file) {
  Recorder& r = *recorder;
  r.output.clear();
  r.output.add(R"({"message":{"message":")").add_json(r.message.view());
  r.output.add(R"(","extraInfo":{"timestamp":")").add_number(::time(nullptr)).add("\"");
  if (r.rank) r.output.add(",\"rank\":").add_number(*r.rank);
  r.output.add(R"(,"py_callstack":")");
  r.output.add_json(r.message.view()).add("\\n").add_json(r.stack.view()).add(R"("}}})");
  ::lseek(file, 0, SEEK_SET);
  write_all(file, r.output.view());
}

// On other machines, the handler's own frames come first.
void begin_where_it_struck(Backtrace& backtrace, const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  backtrace.begin_at(std::bit_cast<const void*>(machine.gregs[REG_RIP]),
                     std::bit_cast<const void* const*>(machine.gregs[REG_RSP]));
#elif defined(__aarch64__)
  backtrace.begin_at(std::bit_cast<const void*>(machine.pc),
                     reinterpret_cast<const void* const*>(&machine.regs[30]));
#else
  static_cast<void>(backtrace);
  static_cast<void>(machine);
#endif
}

void on_signal(int signal, siginfo_t* info, void* context) {
  begin_report(signal);
  Recorder& r = *recorder;
  describe(signal, *info, r.message);
  int file = -1;
  if (!r.path.empty()) {
    file = ::open(r.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                  0644);
    if (file >= 0) write_file(file);
  }
  r.output.clear();
  r.output.add(::program_invocation_short_name).add(": ").add(r.message.view()).add("\n");
  write_all(STDERR_FILENO, r.output.view());

  r.backtrace.capture();
  begin_where_it_struck(r.backtrace, context);
  r.backtrace.find_names();
  if (signal == SIGABRT) {
    r.backtrace.begin_behind(
        [](std::string_view name) { return name == "abort" || name == "__assert_fail"; });
  }
  r.backtrace.print(r.stack);
  if (file >= 0) write_file(file);
  write_all(STDERR_FILENO, r.stack.view());

  // Raise the signal again with its original data, at its original place: a debugger finds both in
  // the core.
  set_default(signal);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), this_thread(), signal, info) != 0) die(signal);
}

// ---- after an exception

void take_stack() {
  Recorder& r = *recorder;
  r.backtrace.capture();
  r.backtrace.find_names();
  // Drops the frames between the throw and here, and std::__throw_out_of_range() and the like.
  r.backtrace.begin_behind([](std::string_view name) {
    return name.ends_with("__cxa_throw") || name.ends_with("__cxa_rethrow") ||
           name == "_ZSt9terminatev" || name.starts_with("_Unwind_") ||
           (name.starts_with("_ZSt") && (name.find("__throw_") != std::string_view::npos ||
                                         name.find("rethrow_exception") != std::string_view::npos));
  });
  r.backtrace.print(r.stack);
}

// Returns "", or if it fails a line for stderr that says why.
std::string write_file(const Thrown& thrown) {
  if (recorder->path.empty()) return "";
  const auto written = write_error_file(recorder->path, {.message = thrown.message,
                                                         .callstack = thrown.callstack,
                                                         .timestamp = ::time(nullptr),
                                                         .rank = recorder->rank});
  return written ? "" : "no error file: " + written.error().message + "\n";
}

// Skips stdout if another thread holds its lock: waiting could take forever.
void flush_stdout() {
  if (::ftrylockfile(stdout) != 0) return;
  std::cout.flush();
  std::fflush(stdout);
}

[[noreturn]] void on_terminate() {
  const bool thrown = std::current_exception() != nullptr;
  const int cause = thrown ? kException : SIGABRT;
  begin_report(cause);
  try {
    Thrown what = what_was_thrown();
    write_file(what);
    take_stack();
    what.callstack += demangled_backtrace(recorder->stack.view());
    const std::string failed = write_file(what);
    flush_stdout();
    write_all(STDERR_FILENO, std::string(::program_invocation_short_name) + ": " + what.message +
                                 "\n" + what.callstack + failed);
  } catch (...) {  // Out of memory: report without allocating.
    constexpr std::string_view kText = "ended by an exception that could not be described\n";
    write_all(STDERR_FILENO, kText);
  }
  die(cause);
}

// ---- setup

void catch_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    const bool untouched = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL;
    if (untouched) ::sigaction(signal, &action, nullptr);
  }
}

// An alternate stack, so that a stack overflow can be reported.
void open_second_stack() {
  constexpr std::size_t kBytes = 256 * kKiB;
  stack_t before{};
  if (::sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t second{.ss_sp = memory, .ss_flags = 0, .ss_size = kBytes};
  ::sigaltstack(&second, nullptr);
}

}  // namespace

// This function must neither catch nor have a destructor to run: see record.h.
int record(int (*main_fn)(int argc, char** argv), int argc, char** argv) {
  if (recorder == nullptr) {
    const Environment environment = Environment::from(environ);
    auto* made = new Recorder;
    made->path = environment.get("TORCHELASTIC_ERROR_FILE").value_or("");
    const auto rank = parse_number<int>(environment.get("RANK").value_or(""));
    if (rank) made->rank = *rank;
    recorder = made;
    Backtrace::prepare();
    open_second_stack();
    catch_signals();
    std::set_terminate(on_terminate);
  }
  return main_fn(argc, argv);
}

}  // namespace distrun
