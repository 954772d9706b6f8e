// Explores all executions of a small program with several threads, as the C++ memory model allows
// them: not only all orders in which the threads run, but also the old values that a load may still
// return. It finds data races, deadlocks (also those of a lost wake-up) and failed checks.
//
//     const Outcome outcome = explore([](Execution& execution) {
//       auto& flag = execution.shared<std::atomic<int>>("flag");
//       auto& data = execution.shared<int>("data");
//       execution.thread([&] { data = 1; flag.store(1, std::memory_order_release); });
//       execution.thread([&] {
//         if (flag.load(std::memory_order_acquire) == 1) require(data == 1, "the data is there");
//       });
//     });
//     EXPECT_EQ(outcome.fault, "");
//
// The program is real code. It is compiled with -fsanitize=thread, so the compiler calls a function
// for each access to memory, and hooks.cc defines these functions instead of the sanitizer. Only
// shared() memory is looked at. Mutexes and futexes work, too; other threads must not be started.
//
// The model is that of release and acquire by views: a location has a list of messages, in
// modification order. A thread has a view, the oldest message of each location that it may still
// read. A release store puts the view into its message, and an acquire load of the message takes
// it. A plain store may go between older messages that the thread has not seen; an update reads the
// message before its own, and continues its release. An access to plain memory and a write of
// another thread are a race unless a view orders them.
//
// Limits: a load never returns a store that the thread makes possible later ("load buffering"),
// which Arm allows for relaxed accesses alone. Sequential consistency counts as acquire and
// release. Fences are not supported.
//
// Each execution starts the program anew. Two executions that differ only in the order of steps of
// different locations are one: sleep sets leave out the second (Godefroid, 1996).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace distrun::shm::model {

// The parts of a program. A program is called once for each execution, and must do the same each
// time.
class Execution {
 public:
  // Memory of zeros that the threads share, at the same place in each execution.
  virtual std::byte* memory(std::size_t bytes) = 0;
  virtual void name(const void* location, const std::string& name) = 0;
  virtual void thread(std::function<void()> act) = 0;
  // Called after the last thread has ended.
  virtual void at_end(std::function<void()> act) = 0;
  // Is destroyed after the execution.
  virtual void keep(std::shared_ptr<void> object) = 0;

  template <class T, class... Arguments>
  T& shared(const std::string& its_name, Arguments&&... arguments) {
    T* made = new (memory(sizeof(T))) T(std::forward<Arguments>(arguments)...);
    name(made, its_name);
    return *made;
  }
  template <class T, class... Arguments>
  T& kept(Arguments&&... arguments) {
    auto made = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    keep(made);
    return *made;
  }

 protected:
  ~Execution() = default;
};

using Program = std::function<void(Execution&)>;

// An atomic operation in the code: "Phases::publish word.exchange", and what its order is.
struct Site {
  std::string text;
  const void* caller = nullptr;
  std::string location;
  bool acquires = false;
  bool releases = false;
  bool failure_acquires = false;  // Of a compare_exchange.
};

enum class Half { kAcquire, kRelease, kFailureAcquire };

// Takes a part of the order from a site.
struct Weakening {
  Site site;
  Half half = Half::kAcquire;
};

struct Options {
  // A thread that sleeps on a futex goes on when nothing else does. Without this, a wake-up that
  // gets lost is a deadlock.
  bool sleeps_end = false;
  // How often a thread may also wake before, for no reason.
  int early_ends_of_sleep = 0;
  // Whether threads may wait for each other's mutexes. If not, mutexes do nothing.
  bool has_mutexes = false;
  // Whether wake_sleepers() does something.
  bool has_wakes = true;
  std::uint64_t executions_max = 3'000'000;
  Weakening weakened;
};

struct Outcome {
  std::string fault;             // Of the first execution that has one, with its steps; or "".
  std::uint64_t executions = 0;  // All that differ, unless one has a fault.
  std::uint64_t left_out = 0;    // Begun, but equal to another.
  std::vector<Site> sites;       // In the order of their first use.
};

Outcome explore(const Program& program, const Options& options = {});

// Ends the exploration with a fault if a check fails. For threads of a program, and at_end().
void require(bool holds, const char* what);

// A program with its options.
struct Litmus {
  const char* name;
  Program program;
  Options options;
};
// Explores each litmus with each part of the order of each site taken away. Returns those without
// which no litmus has a fault: "Phases::publish word.exchange: acquire".
std::vector<std::string> needless_orders(const std::vector<Litmus>& all);

// For hooks.cc.
struct Operation;
// Whether a thread of a program runs and uses shared memory.
bool is_modeled(const void* address);
bool is_running();
bool has_mutexes();
bool has_wakes();
// The value that was there before. For a load, the value.
std::uint64_t run(const Operation& operation);
void enter_function(const void* caller);
void leave_function();
void access(const void* address, std::size_t bytes, bool is_write);
// The thread looks again, at what it looked at since the last pause. An execution goes on only with
// the look that finds something; the thread waits in between. A thread that looks for ever has a
// deadlock.
void pause();

}  // namespace distrun::shm::model
