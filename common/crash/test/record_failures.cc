// For record_test.cc and the launcher's tests: fails in the way that its argument names.
//
//     record_failures throw|thread|terminate|segv|abort|fpe|overflow|… [RANK]     all: kWays
//
// With a rank as second argument, only that worker fails; the others wait.
#undef NDEBUG  // assert() is one of the failures.
#include <array>
#include <atomic>
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "distrun/record.h"

// Each function must keep its frame and fail before a sanitizer intervenes.
#if defined(__clang__)
#define A_FRAME __attribute__((noinline, no_sanitize("address", "undefined")))
#else
#define A_FRAME                                                                           \
  __attribute__((noinline, optimize("no-optimize-sibling-calls"), no_sanitize("address"), \
                 no_sanitize("undefined")))
#endif

namespace {

std::atomic<int> zero = 0, seven = 7;
int* volatile nowhere = nullptr;

struct NeedsDestruction {
  std::vector<int> values = std::vector<int>(3);
  ~NeedsDestruction() { std::fputs("destroyed\n", stderr); }
};

A_FRAME void open_data(const std::string& path) {
  const NeedsDestruction on_the_way;
  throw std::runtime_error("cannot open " + path);
}
A_FRAME void read_at(const std::vector<int>& values) {
  zero = values.at(7);
  zero = 0;
}
A_FRAME void forbids() noexcept { open_data("it"); }
A_FRAME void touch() { *nowhere = 1; }
A_FRAME int recurse(int depth) {
  volatile char frame[1000];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}
// Makes the stack unreadable for unwinding.
A_FRAME void lose_the_stack() {
#if defined(__x86_64__)
  asm volatile("mov $64, %rsp\n\tmov $64, %rbp\n\tmovl $1, 0");
#elif defined(__aarch64__)
  asm volatile("mov x9, #64\n\tmov sp, x9\n\tmov x29, x9\n\tmov x30, x9\n\tstr x9, [x9, #-64]");
#endif
}
A_FRAME void call_nothing() { reinterpret_cast<void (*)()>(nowhere)(); }
A_FRAME void divide() { seven = seven / zero; }

struct LibTorchsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CannotTell : std::exception {
  const char* what() const noexcept override {
    touch();
    return "";
  }
};

// The program's own handler of SIGSEGV, installed before record().
void leave(int) { ::_exit(9); }

const std::map<std::string, std::function<int()>> kWays = {
    {"return", [] { return 7; }},
    {"exit", []() -> int { std::exit(8); }},
    {"throw",
     [] {
       std::printf("not flushed");
       open_data("digits \"a\"\n");
       return 0;
     }},
    {"at",
     [] {
       read_at({1, 2});
       return 0;
     }},
    {"text", []() -> int { throw "a mere text"; }},
    {"number", []() -> int { throw 3; }},
    {"long", []() -> int { throw std::runtime_error(std::string(2'000'000, 'x')); }},
    {"torch",
     []() -> int {
       throw LibTorchsError(
           "sizes differ\nException raised from f at x.cpp:3 (most recent call first):\nframe #0: "
           "f");
     }},
    {"what", []() -> int { throw CannotTell(); }},
    {"thread",
     [] {
       std::thread([] { open_data("it"); }).join();
       return 0;
     }},
    {"noexcept",
     [] {
       forbids();
       return 0;
     }},
    {"terminate", []() -> int { std::terminate(); }},
    {"segv",
     [] {
       touch();
       return 0;
     }},
    {"segv_in_thread",
     [] {
       std::thread(touch).join();
       return 0;
     }},
    {"segv_in_all_threads",
     [] {
       std::array<std::thread, 8> threads;
       for (auto& thread : threads) thread = std::thread(touch);
       for (auto& thread : threads) thread.join();
       return 0;
     }},
    {"overflow", [] { return recurse(0); }},
    {"lost_stack",
     [] {
       lose_the_stack();
       return 0;
     }},
    {"call_nothing",
     [] {
       call_nothing();
       return 0;
     }},
    {"fpe",
     [] {
       divide();
       return 0;
     }},
    {"ill", []() -> int { __builtin_trap(); }},
    {"bus",
     [] {
       // A page beyond the end of an empty file.
       const int file = ::fileno(std::tmpfile());
       *static_cast<char*>(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file, 0)) = 1;
       return 0;
     }},
    {"assert",
     [] {
       assert(zero == 1);
       return 0;
     }},
    {"abort", []() -> int { std::abort(); }},
    {"kill_segv",
     [] {
       ::kill(::getpid(), SIGSEGV);
       return 0;
     }},
    {"term",
     [] {
       ::raise(SIGTERM);
       return 0;
     }},
};

const char* way = "";

int fail(int, char**) { return kWays.at(way)(); }

}  // namespace

// Turns off a sanitizer's handlers, which record() would leave installed.
// NOLINTBEGIN(bugprone-reserved-identifier): the sanitizers define the name.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
         "disable_coredump=0";
}
// NOLINTEND(bugprone-reserved-identifier)

int main(int argc, char** argv) {
  if (argc < 2 || kWays.count(argv[1]) == 0) return 64;
  way = argv[1];
  if (argc > 2 && std::string(argv[2]) == "handler") ::signal(SIGSEGV, leave);
  const char* rank = std::getenv("RANK");
  if (argc > 2 && rank != nullptr && std::string(argv[2]) != rank) ::pause();
  // Disables core dumps, unless a test asks for one.
  if (std::getenv("CORE") == nullptr) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
  }
  return distrun::record(fail, argc, argv);
}
