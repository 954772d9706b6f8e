#include "backends/shm/host/test/model/explorer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>

#include <cxxabi.h>
#include <dlfcn.h>
#include <ucontext.h>

namespace distrun::shm::model {

namespace {

constexpr int kThreadsMax = 6;
constexpr std::size_t kLocationsMax = 32;
constexpr std::size_t kSharedBytes = std::size_t{256} * 1024;
constexpr std::size_t kHeapBytes = std::size_t{16} * 1024 * 1024;
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;
constexpr int kStepsMax = 3000;
constexpr std::int16_t kAwake = -1;
// The choice of a sleeper whose time is over, as nothing else goes on.
constexpr std::int16_t kLater = 1;

// The knowledge of a thread, or of a message.
struct View {
  std::array<std::int16_t, kLocationsMax> seen{};  // The number of a message of each location.
  std::array<std::uint16_t, kThreadsMax> clock{};  // How much of each thread happened before.
};

struct Message {
  std::uint64_t value = 0;
  View view;
  int place = 0;  // In modification order.
  bool is_read_by_update = false;
};

struct Location {
  const void* address = nullptr;
  int bytes = 0;
  std::size_t name_number = 0;
  std::string name;
  std::vector<Message> messages;    // By number: in the order in which they were written.
  std::vector<std::int16_t> order;  // Their numbers, in modification order.
  std::int16_t awake_from = 0;      // A thread that goes to sleep sees this message, or later ones.
  int holder = -1;                  // Of a mutex.
};

// The last accesses to a byte.
struct Shadow {
  std::array<std::uint16_t, kThreadsMax> reads{};
  std::uint16_t write = 0;
  std::int8_t writer = -1;
  bool is_used = false;
};

struct Fiber {
  ucontext_t first{};
  jmp_buf here{};
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
  std::array<std::uint64_t, 2> exceptions{};  // __cxa_eh_globals
  bool has_started = false;
  std::function<void()> act;
  bool has_ended = false;
  Operation next;
  std::size_t location = 0;  // Of `next`.
  int site = 0;
  std::uint64_t result = 0;
  View view;
  bool is_pausing = false;  // Since its last operation.
  int early_ends = 0;       // Of its sleeps.
  // Where the functions return to that it is in.
  std::array<const void*, 64> callers{};
  std::size_t depth = 0;
};

struct Step {
  int thread = 0;
  std::int16_t choice = 0;  // The number of a message, mostly.
  bool has_paused = false;  // After it, the thread looks again.
};

// A step, after the thread has gone on.
struct Done {
  Kind kind;
  std::size_t location;
};

// Whether the next step of a thread needs no further exploration here.
struct Sleep {
  std::int16_t messages = kAwake;  // Or the number of those that were explored.
  bool only_pauses = true;         // After each of them.

  bool is_awake() const { return messages == kAwake; }
};
using Asleep = std::array<Sleep, kThreadsMax>;

struct Node {
  std::vector<Step> steps;
  std::size_t at = 0;
  Asleep asleep{};
};

bool acquires(int order) {
  return order == static_cast<int>(std::memory_order_acquire) ||
         order == static_cast<int>(std::memory_order_consume) ||
         order == static_cast<int>(std::memory_order_acq_rel) ||
         order == static_cast<int>(std::memory_order_seq_cst);
}
bool releases(int order) {
  return order == static_cast<int>(std::memory_order_release) ||
         order == static_cast<int>(std::memory_order_acq_rel) ||
         order == static_cast<int>(std::memory_order_seq_cst);
}

// "distrun::shm::Phases::publish()" becomes "Phases::publish".
std::string function_at(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) return "?";
  int status = 0;
  char* text = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : info.dli_sname;
  std::free(text);
  name = name.substr(0, name.find('('));
  for (const std::string space : {"distrun::shm::", "model::", "std::"}) {
    if (name.rfind(space, 0) == 0) name = name.substr(space.size());
  }
  return name;
}

const char* name_of(const Operation& operation) {
  switch (operation.kind) {
    case Kind::kLoad:
      return "load";
    case Kind::kStore:
      return "store";
    case Kind::kUpdate: {
      constexpr const char* kNames[] = {"exchange",  "fetch_add", "fetch_sub",
                                        "fetch_and", "fetch_or",  "fetch_xor"};
      return kNames[static_cast<int>(operation.update)];
    }
    case Kind::kCompare:
      return "compare_exchange";
    case Kind::kSleep:
      return "sleep";
    case Kind::kAsleep:
      return "end of sleep";
    case Kind::kWake:
      return "wake";
    case Kind::kLock:
      return "lock";
    case Kind::kUnlock:
      return "unlock";
  }
  return "?";
}

std::uint64_t updated(const Operation& operation, std::uint64_t old) {
  switch (operation.update) {
    case Update::kExchange:
      return operation.value;
    case Update::kAdd:
      return old + operation.value;
    case Update::kSubtract:
      return old - operation.value;
    case Update::kAnd:
      return old & operation.value;
    case Update::kOr:
      return old | operation.value;
    case Update::kXor:
      return old ^ operation.value;
  }
  return old;
}

std::uint64_t cut(std::uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

class Explorer;
Explorer* current = nullptr;
// A thread of the program runs, and is not in a hook.
bool in_program = false;

class InHook {
 public:
  InHook() : was_(std::exchange(in_program, false)) {}
  ~InHook() { in_program = was_; }

 private:
  const bool was_;
};

alignas(4096) std::array<std::byte, kSharedBytes> shared_memory;
std::array<Shadow, kSharedBytes> shadows;

// Allocations of a program's threads live until the execution ends, because many executions end in
// the middle.
alignas(64) std::array<std::byte, kHeapBytes> heap;
std::size_t heap_used = 0;

std::size_t offset_of(const void* address) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - shared_memory.data());
}

class Explorer final : public Execution {
 public:
  Explorer(const Program& program, const Options& options) : program_(program), options_(options) {}

  Outcome explore() {
    while (fault_.empty()) {
      run_once();
      if (!fault_.empty() || !go_back()) break;
      if (outcome_.executions + outcome_.left_out > options_.executions_max) {
        fault_ = "the program has too many executions";
      }
    }
    outcome_.fault = fault_;
    return outcome_;
  }

  std::byte* memory(std::size_t bytes) override {
    constexpr std::size_t kApart = 128;
    std::byte* begin = shared_memory.data() + shared_used_;
    shared_used_ += (bytes + kApart - 1) / kApart * kApart;
    if (shared_used_ > kSharedBytes) std::abort();
    return begin;
  }
  void name(const void* location, const std::string& name) override {
    if (names_.count(location) != 0) return;
    const auto found = std::find(all_names_.begin(), all_names_.end(), name);
    names_[location] = static_cast<std::size_t>(found - all_names_.begin());
    if (found == all_names_.end()) all_names_.push_back(name);
  }
  void thread(std::function<void()> act) override {
    if (threads_ == kThreadsMax) std::abort();
    if (fibers_.size() == static_cast<std::size_t>(threads_)) {
      fibers_.push_back(std::make_unique<Fiber>());
    }
    Fiber& fiber = *fibers_[static_cast<std::size_t>(threads_++)];
    fiber.act = std::move(act);
    fiber.has_started = fiber.has_ended = fiber.is_pausing = false;
    fiber.depth = 0;
    fiber.early_ends = 0;
    fiber.exceptions = {};
    fiber.view = View();
  }
  void at_end(std::function<void()> act) override { at_end_.push_back(std::move(act)); }
  void keep(std::shared_ptr<void> object) override { kept_.push_back(std::move(object)); }

  std::uint64_t run(const Operation& operation) {
    Fiber& fiber = running();
    fiber.next = operation;
    fiber.location = location_of(operation);
    fiber.site = operation.kind <= Kind::kCompare ? site_of(operation) : 0;
    leave(fiber);
    return fiber.result;
  }

  void access(const void* address, std::size_t bytes, bool is_write) {
    Fiber& fiber = running();
    const auto me = static_cast<std::size_t>(running_);
    for (std::size_t i = 0; i < bytes; ++i) {
      const std::size_t at = offset_of(address) + i;
      if (at >= kSharedBytes) break;
      Shadow& shadow = shadows[at];
      if (!shadow.is_used) {
        shadow.is_used = true;
        used_shadows_.push_back(at);
      }
      bool is_race = shadow.writer >= 0 &&
                     fiber.view.clock[static_cast<std::size_t>(shadow.writer)] < shadow.write;
      if (is_write) {
        for (std::size_t other = 0; other < kThreadsMax; ++other) {
          is_race = is_race || fiber.view.clock[other] < shadow.reads[other];
        }
        shadow.writer = static_cast<std::int8_t>(running_);
        shadow.write = fiber.view.clock[me];
        shadow.reads = {};
      } else {
        shadow.reads[me] = fiber.view.clock[me];
      }
      if (is_race) {
        fail("data race: thread " + std::to_string(running_) + (is_write ? " writes" : " reads") +
             " byte " + std::to_string(at) + " of the shared memory");
      }
    }
  }

  void pause() { running().is_pausing = true; }
  bool has_wakes() const { return options_.has_wakes; }
  bool has_mutexes() const { return options_.has_mutexes; }

  void enter_function(const void* caller) {
    Fiber& fiber = running();
    fiber.callers[fiber.depth++ % fiber.callers.size()] = caller;
  }
  void leave_function() { --running().depth; }

  // Ends the exploration. Does not return on a thread of the program.
  void fail(const std::string& what) {
    if (is_tearing_down_) return;
    if (fault_.empty()) fault_ = what + trace();
    if (running_ >= 0) leave(running());
  }

  static void enter() {
    Explorer& me = *current;
    Fiber& fiber = me.running();
    std::string fault;
    try {
      in_program = true;
      fiber.act();
      in_program = false;
    } catch (const std::exception& error) {
      in_program = false;
      fault = error.what();
    }
    if (!fault.empty()) me.fail("thread " + std::to_string(me.running_) + ": " + fault);
    fiber.has_ended = true;
    me.leave(fiber);
  }

 private:
  Fiber& running() { return *fibers_[static_cast<std::size_t>(running_)]; }

  static std::array<std::uint64_t, 2>* exceptions() {
    return reinterpret_cast<std::array<std::uint64_t, 2>*>(abi::__cxa_get_globals());
  }

  // From a thread of the program to the explorer.
  void leave(Fiber& fiber) {
    fiber.exceptions = *exceptions();
    if (_setjmp(fiber.here) == 0) _longjmp(explorer_, 1);
  }

  // Until its next operation, or its end.
  void resume(int thread) {
    running_ = thread;
    Fiber& fiber = running();
    const auto mine = *exceptions();
    *exceptions() = fiber.exceptions;
    if (_setjmp(explorer_) == 0) {
      if (fiber.has_started) {
        in_program = false;  // run() sets it when it returns.
        _longjmp(fiber.here, 1);
      }
      fiber.has_started = true;
      ::getcontext(&fiber.first);
      fiber.first.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
      fiber.first.uc_link = nullptr;
      ::makecontext(&fiber.first, &Explorer::enter, 0);
      ::setcontext(&fiber.first);
    }
    in_program = false;
    *exceptions() = mine;
    running_ = -1;
  }

  std::size_t location_of(const Operation& operation) {
    for (std::size_t i = 0; i < locations_; ++i) {
      if (all_locations_[i].address == operation.address) return i;
    }
    if (locations_ == kLocationsMax) std::abort();
    Location& made = all_locations_[locations_];
    made.address = operation.address;
    made.bytes = operation.bytes;
    const auto name = names_.find(operation.address);
    made.name_number = name != names_.end() ? name->second : 0;
    made.name = all_names_[made.name_number];
    made.messages.assign(1, Message());
    made.order.assign(1, 0);
    made.awake_from = 0;
    made.holder = -1;
    if (made.bytes != 0) {
      std::memcpy(&made.messages[0].value, operation.address, static_cast<std::size_t>(made.bytes));
    }
    return locations_++;
  }

  int site_of(const Operation& operation) {
    Fiber& fiber = running();
    const void* caller = operation.caller;
    for (std::size_t above = 1; above <= fiber.depth && is_in_library(caller); ++above) {
      caller = fiber.callers[(fiber.depth - above) % fiber.callers.size()];
    }
    const auto key = std::make_pair(caller, all_locations_[fiber.location].name_number);
    const auto found = sites_.find(key);
    if (found != sites_.end()) return found->second;
    const std::string& name = all_locations_[fiber.location].name;
    Site site;
    site.caller = caller;
    site.location = name;
    site.text = function_at(caller) + " " + name + "." + name_of(operation);
    site.acquires = operation.kind != Kind::kStore && acquires(operation.order);
    site.releases = operation.kind != Kind::kLoad && releases(operation.order);
    site.failure_acquires = operation.kind == Kind::kCompare && acquires(operation.failure_order);
    outcome_.sites.push_back(site);
    return sites_[key] = static_cast<int>(outcome_.sites.size()) - 1;
  }

  // Such as std::atomic<RankState>::load(), which is not inline.
  bool is_in_library(const void* caller) {
    const auto found = are_in_library_.find(caller);
    if (found != are_in_library_.end()) return found->second;
    const std::string function = function_at(caller);
    const bool is = function.rfind("atomic<", 0) == 0 || function.rfind("__atomic_base<", 0) == 0;
    return are_in_library_[caller] = is;
  }

  bool has_order(const Fiber& fiber, Half half) const {
    const Site& site = outcome_.sites[static_cast<std::size_t>(fiber.site)];
    const Site& weakened = options_.weakened.site;
    if (half == options_.weakened.half && site.caller == weakened.caller &&
        site.location == weakened.location) {
      return false;
    }
    if (half == Half::kAcquire) return site.acquires;
    return half == Half::kRelease ? site.releases : site.failure_acquires;
  }

  int place(std::size_t location, std::int16_t message) const {
    return all_locations_[location].messages[static_cast<std::size_t>(message)].place;
  }

  void join(View& view, const View& other) const {
    for (std::size_t i = 0; i < locations_; ++i) {
      if (place(i, other.seen[i]) > place(i, view.seen[i])) view.seen[i] = other.seen[i];
    }
    for (std::size_t i = 0; i < kThreadsMax; ++i) {
      view.clock[i] = std::max(view.clock[i], other.clock[i]);
    }
  }

  // Only among messages of one location do such operations choose.
  static bool chooses_message(Kind kind) { return kind <= Kind::kSleep; }

  void add_choices(int thread, std::vector<std::int16_t>& choices) const {
    const Fiber& fiber = *fibers_[static_cast<std::size_t>(thread)];
    if (fiber.has_ended) return;
    const Location& location = all_locations_[fiber.location];
    const Kind kind = fiber.next.kind;
    if (!chooses_message(kind)) {
      if (kind == Kind::kAsleep && fiber.early_ends == options_.early_ends_of_sleep) return;
      if (kind == Kind::kLock && location.holder >= 0) return;
      choices.push_back(0);
      return;
    }
    int first = place(fiber.location, fiber.view.seen[fiber.location]);
    if (kind == Kind::kSleep) first = std::max(first, place(fiber.location, location.awake_from));
    for (std::size_t i = static_cast<std::size_t>(first); i < location.order.size(); ++i) {
      const std::int16_t number = location.order[i];
      const Message& message = location.messages[static_cast<std::size_t>(number)];
      const bool writes = kind == Kind::kStore || kind == Kind::kUpdate ||
                          (kind == Kind::kCompare && message.value == fiber.next.expected);
      if (writes && message.is_read_by_update) continue;
      choices.push_back(number);
    }
  }

  // Whether the next step of a thread, and one that another has done, can change places. Loads can:
  // what was written since is a new choice.
  static bool is_independent(const Fiber& sleeper, const Done& other, bool has_written) {
    if (sleeper.location != other.location) return true;
    const Kind done = other.kind;
    switch (sleeper.next.kind) {
      case Kind::kLoad:
        return true;
      case Kind::kStore:
      case Kind::kUpdate:
      case Kind::kCompare:
        return !has_written;
      case Kind::kSleep:
      case Kind::kAsleep:
        return done != Kind::kWake;
      case Kind::kWake:
        return done != Kind::kSleep && done != Kind::kAsleep;
      case Kind::kLock:
      case Kind::kUnlock:
        return false;
    }
    return false;
  }

  void write(Fiber& fiber, int thread, std::int16_t after, std::uint64_t value, bool is_update) {
    Location& location = all_locations_[fiber.location];
    const auto number = static_cast<std::int16_t>(location.messages.size());
    Message made;
    made.value = cut(value, location.bytes);
    if (is_update) {
      Message& read = location.messages[static_cast<std::size_t>(after)];
      read.is_read_by_update = true;
      made.view = read.view;
    }
    made.place = place(fiber.location, after) + 1;
    for (std::size_t i = static_cast<std::size_t>(made.place); i < location.order.size(); ++i) {
      ++location.messages[static_cast<std::size_t>(location.order[i])].place;
    }
    location.order.insert(location.order.begin() + made.place, number);
    location.messages.push_back(made);
    fiber.view.seen[fiber.location] = number;
    View& view = location.messages.back().view;
    view.seen[fiber.location] = number;
    if (has_order(fiber, Half::kRelease)) {
      join(view, fiber.view);
      ++fiber.view.clock[static_cast<std::size_t>(thread)];
    }
    const std::uint64_t last =
        location.messages[static_cast<std::size_t>(location.order.back())].value;
    std::memcpy(const_cast<void*>(location.address), &last,
                static_cast<std::size_t>(location.bytes));
  }

  // Returns whether it wrote.
  bool execute(const Step& step) {
    Fiber& fiber = *fibers_[static_cast<std::size_t>(step.thread)];
    Location& location = all_locations_[fiber.location];
    const Operation& operation = fiber.next;
    fiber.is_pausing = false;
    if (chooses_message(operation.kind)) {
      const Message& chosen = location.messages[static_cast<std::size_t>(step.choice)];
      fiber.result = chosen.value;
      const bool fails = operation.kind == Kind::kCompare && chosen.value != operation.expected;
      const bool writes =
          !fails && (operation.kind == Kind::kStore || operation.kind == Kind::kUpdate ||
                     operation.kind == Kind::kCompare);
      if (operation.kind == Kind::kSleep) {
        // The kernel loads the word on this thread.
        fiber.view.seen[fiber.location] = step.choice;
        if (chosen.value == cut(operation.value, location.bytes)) {
          fiber.next.kind = Kind::kAsleep;
          return false;
        }
        resume(step.thread);
        return false;
      }
      if (operation.kind != Kind::kStore) {
        fiber.view.seen[fiber.location] = step.choice;
        if (has_order(fiber, fails ? Half::kFailureAcquire : Half::kAcquire)) {
          join(fiber.view, View(chosen.view));
        }
      }
      if (writes) {
        const std::uint64_t value =
            operation.kind == Kind::kUpdate ? updated(operation, fiber.result) : operation.value;
        write(fiber, step.thread, step.choice, value, operation.kind != Kind::kStore);
      }
      resume(step.thread);
      return writes;
    }
    if (operation.kind == Kind::kWake) {
      const std::int16_t seen = fiber.view.seen[fiber.location];
      if (place(fiber.location, seen) > place(fiber.location, location.awake_from)) {
        location.awake_from = seen;
      }
      const std::size_t where = fiber.location;
      for (int other = 0; other < threads_ && fault_.empty(); ++other) {
        Fiber& sleeper = *fibers_[static_cast<std::size_t>(other)];
        const bool sleeps = !sleeper.has_ended && sleeper.next.kind == Kind::kAsleep;
        if (sleeps && sleeper.location == where) resume(other);
      }
      if (!fault_.empty()) return false;
    } else if (operation.kind == Kind::kAsleep) {
      if (step.choice != kLater) ++fiber.early_ends;
      // By now it sees what was written.
      for (std::size_t i = 0; i < locations_ && step.choice == kLater; ++i) {
        fiber.view.seen[i] = all_locations_[i].order.back();
      }
    } else if (operation.kind == Kind::kLock) {
      location.holder = step.thread;
      join(fiber.view, View(location.messages[0].view));
    } else if (operation.kind == Kind::kUnlock) {
      location.holder = -1;
      location.messages[0].view = fiber.view;
      location.messages[0].view.seen[fiber.location] = 0;
      ++fiber.view.clock[static_cast<std::size_t>(step.thread)];
    }
    resume(step.thread);
    return false;
  }

  void set_up() {
    threads_ = 0;
    locations_ = 0;
    shared_used_ = 0;
    heap_used = 0;
    steps_.clear();
    program_(*this);
    for (int thread = 0; thread < threads_; ++thread) {
      fibers_[static_cast<std::size_t>(thread)]->view.clock[static_cast<std::size_t>(thread)] = 1;
    }
    for (int thread = 0; thread < threads_ && fault_.empty(); ++thread) resume(thread);
  }

  void tear_down() {
    is_tearing_down_ = true;
    for (auto& each : fibers_) each->act = nullptr;
    at_end_.clear();
    kept_.clear();
    for (const std::size_t at : used_shadows_) shadows[at] = Shadow();
    used_shadows_.clear();
    std::memset(shared_memory.data(), 0, shared_used_);
    is_tearing_down_ = false;
  }

  void run_once() {
    set_up();
    Asleep asleep{};
    for (std::size_t depth = 0; fault_.empty(); ++depth) {
      if (depth == kStepsMax) {
        fail("the program does not end");
        break;
      }
      if (depth == nodes_.size() && !add_node(asleep)) break;
      const Node& node = nodes_[depth];
      const Step step = node.steps[node.at];
      asleep = node.asleep;
      for (std::size_t i = 0; i < node.at; ++i) {
        const Step& before = node.steps[i];
        if (before.thread == step.thread) continue;
        const Fiber& fiber = *fibers_[static_cast<std::size_t>(before.thread)];
        Sleep& its = asleep[static_cast<std::size_t>(before.thread)];
        its.messages = static_cast<std::int16_t>(all_locations_[fiber.location].messages.size());
        its.only_pauses = its.only_pauses && before.has_paused;
      }
      asleep[static_cast<std::size_t>(step.thread)] = Sleep();
      steps_.push_back(step);
      Fiber& fiber = *fibers_[static_cast<std::size_t>(step.thread)];
      describe(step);
      const Done done{fiber.next.kind, fiber.location};
      const std::size_t messages = all_locations_[done.location].messages.size();
      rouse(asleep, step, done, /*has_written=*/false);
      execute(step);
      const bool has_written = all_locations_[done.location].messages.size() != messages;
      if (has_written) rouse(asleep, step, done, has_written);
      if (fiber.is_pausing) {
        // It would look again: another execution lets it look later.
        nodes_[depth].steps[nodes_[depth].at].has_paused = true;
        ++outcome_.left_out;
        if (!can_change(step.thread, asleep)) fail("deadlock: a thread looks for ever");
        break;
      }
    }
    tear_down();
  }

  // The threads whose next step must be explored again after this one.
  void rouse(Asleep& asleep, const Step& step, const Done& done, bool has_written) const {
    for (int thread = 0; thread < threads_; ++thread) {
      if (thread == step.thread) continue;
      const Fiber& sleeper = *fibers_[static_cast<std::size_t>(thread)];
      if (!is_independent(sleeper, done, has_written)) {
        asleep[static_cast<std::size_t>(thread)] = Sleep();
      }
    }
  }

  // Whether a thread that only looks again may find something else.
  bool has_news(const Fiber& fiber) const {
    for (std::size_t i = 0; i < locations_; ++i) {
      if (fiber.view.seen[i] != all_locations_[i].order.back()) return true;
    }
    return false;
  }

  // Whether anything may happen before a thread looks again.
  bool can_change(int looker, const Asleep& asleep) const {
    for (int thread = 0; thread < threads_; ++thread) {
      std::vector<std::int16_t> choices;
      add_choices(thread, choices);
      if (choices.empty()) continue;
      const Sleep& sleep = asleep[static_cast<std::size_t>(thread)];
      const bool only_looks = thread == looker || (!sleep.is_awake() && sleep.only_pauses);
      if (!only_looks || has_news(*fibers_[static_cast<std::size_t>(thread)])) return true;
    }
    return false;
  }

  // False if the execution ends here.
  bool add_node(const Asleep& asleep) {
    Node node;
    node.asleep = asleep;
    bool can_go_on = false, has_ended = true;
    std::vector<std::int16_t> choices;
    for (int thread = 0; thread < threads_; ++thread) {
      const Fiber& fiber = *fibers_[static_cast<std::size_t>(thread)];
      has_ended = has_ended && fiber.has_ended;
      choices.clear();
      add_choices(thread, choices);
      const Sleep& sleep = asleep[static_cast<std::size_t>(thread)];
      const std::int16_t explored = sleep.messages;
      const bool only_looks = !sleep.is_awake() && sleep.only_pauses && !has_news(fiber);
      can_go_on = can_go_on || (!choices.empty() && !only_looks);
      for (const std::int16_t choice : choices) {
        const bool is_message = fiber.next.kind == Kind::kLoad || fiber.next.kind == Kind::kSleep;
        if (explored != kAwake && (!is_message || choice < explored)) continue;
        node.steps.push_back({thread, choice});
      }
    }
    if (!node.steps.empty()) {
      nodes_.push_back(std::move(node));
      return true;
    }
    if (can_go_on) {
      ++outcome_.left_out;
      return false;
    }
    if (!has_ended && options_.sleeps_end) {
      for (int thread = 0; thread < threads_; ++thread) {
        const Fiber& fiber = *fibers_[static_cast<std::size_t>(thread)];
        const bool is_asleep = !fiber.has_ended && fiber.next.kind == Kind::kAsleep;
        if (is_asleep) node.steps.push_back({thread, kLater});
      }
      if (!node.steps.empty()) {
        nodes_.push_back(std::move(node));
        return true;
      }
    }
    ++outcome_.executions;
    if (!has_ended) {
      fail("deadlock: no thread can go on");
      return false;
    }
    for (const auto& each : at_end_) each();
    return false;
  }

  bool go_back() {
    while (!nodes_.empty()) {
      Node& last = nodes_.back();
      if (++last.at < last.steps.size()) return true;
      nodes_.pop_back();
    }
    return false;
  }

  void describe(const Step& step) {
    const Fiber& fiber = *fibers_[static_cast<std::size_t>(step.thread)];
    lines_.resize(steps_.size());
    const bool has_site = fiber.next.kind <= Kind::kCompare;
    lines_[steps_.size() - 1] = {step, fiber.next.kind, fiber.location, has_site ? fiber.site : -1};
  }

  std::string trace() const {
    std::string text;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Line& line = lines_[i];
      Operation operation;
      operation.kind = line.kind;
      const Location& location = all_locations_[line.location];
      text += "\n  thread " + std::to_string(line.step.thread) + ": ";
      text += line.site >= 0 ? outcome_.sites[static_cast<std::size_t>(line.site)].text
                             : location.name + "." + name_of(operation);
      if (chooses_message(line.kind)) {
        const auto& message = location.messages[static_cast<std::size_t>(line.step.choice)];
        text += line.kind == Kind::kStore ? ", after " : ", of ";
        text += std::to_string(message.value);
      }
    }
    return text;
  }

  struct Line {
    Step step;
    Kind kind;
    std::size_t location;
    int site;
  };

  const Program& program_;
  const Options options_;
  Outcome outcome_;
  std::string fault_;
  jmp_buf explorer_{};
  std::vector<std::unique_ptr<Fiber>> fibers_;
  int threads_ = 0;
  int running_ = -1;
  bool is_tearing_down_ = false;
  std::array<Location, kLocationsMax> all_locations_;
  std::size_t locations_ = 0;
  std::size_t shared_used_ = 0;
  std::vector<std::size_t> used_shadows_;
  std::map<const void*, std::size_t> names_;
  std::vector<std::string> all_names_ = {"?"};
  std::map<std::pair<const void*, std::size_t>, int> sites_;  // By caller and name.
  std::map<const void*, bool> are_in_library_;
  std::vector<std::function<void()>> at_end_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<Node> nodes_;  // The path of the execution, with what is left to explore.
  std::vector<Step> steps_;
  std::vector<Line> lines_;
};

}  // namespace

Outcome explore(const Program& program, const Options& options) {
  auto explorer = std::make_unique<Explorer>(program, options);
  current = explorer.get();
  Outcome outcome = explorer->explore();
  current = nullptr;
  return outcome;
}

void require(bool holds, const char* what) {
  const InHook guard;
  if (!holds) current->fail(std::string("does not hold: ") + what);
}

std::vector<std::string> needless_orders(const std::vector<Litmus>& all) {
  struct Part {
    Half half;
    const char* name;
    bool Site::*has;
  };
  constexpr Part kParts[] = {
      {Half::kAcquire, "acquire", &Site::acquires},
      {Half::kRelease, "release", &Site::releases},
      {Half::kFailureAcquire, "acquire on failure", &Site::failure_acquires}};
  std::set<std::string> used, needed;
  for (const Litmus& litmus : all) {
    for (const Site& site : explore(litmus.program, litmus.options).sites) {
      for (const Part& part : kParts) {
        if (!(site.*part.has)) continue;
        const std::string text = site.text + ": " + part.name;
        used.insert(text);
        if (needed.count(text) != 0) continue;
        Options options = litmus.options;
        options.weakened = {site, part.half};
        if (!explore(litmus.program, options).fault.empty()) needed.insert(text);
      }
    }
  }
  std::vector<std::string> needless;
  std::set_difference(used.begin(), used.end(), needed.begin(), needed.end(),
                      std::back_inserter(needless));
  return needless;
}

bool is_running() { return in_program; }
bool has_wakes() { return in_program && current->has_wakes(); }
bool has_mutexes() { return in_program && current->has_mutexes(); }

bool is_modeled(const void* address) { return in_program && offset_of(address) < kSharedBytes; }

std::uint64_t run(const Operation& operation) {
  in_program = false;
  const std::uint64_t result = current->run(operation);
  in_program = true;
  return result;
}

void access(const void* address, std::size_t bytes, bool is_write) {
  const InHook guard;
  current->access(address, bytes, is_write);
}

void enter_function(const void* caller) {
  if (in_program) current->enter_function(caller);
}
void leave_function() {
  if (in_program) current->leave_function();
}

void pause() {
  if (!in_program) return;
  const InHook guard;
  current->pause();
}

namespace {

bool is_in_heap(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= heap.data() && byte < heap.data() + heap.size();
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (in_program) {
    const std::size_t begin = (heap_used + alignment - 1) / alignment * alignment;
    if (begin + bytes > heap.size()) std::abort();
    heap_used = begin + bytes;
    return heap.data() + begin;
  }
  void* memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

}  // namespace distrun::shm::model

// Of the whole test program.
void* operator new(std::size_t bytes) { return distrun::shm::model::allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return distrun::shm::model::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  if (!distrun::shm::model::is_in_heap(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  operator delete(memory);
}
