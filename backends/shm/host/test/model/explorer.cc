#include "backends/shm/host/test/model/explorer.h"

#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

#include "backends/shm/host/test/model/fiber.h"
#include "backends/shm/host/test/model/heap.h"
#include "backends/shm/host/test/model/memory.h"
#include "backends/shm/host/test/model/operation.h"
#include "backends/shm/host/test/model/sites.h"

namespace distrun::shm::model {

namespace {

constexpr int kStepsMax = 3000;
constexpr std::int16_t kAwake = -1;
// The choice of a sleeper whose time is over, as nothing else goes on.
constexpr std::int16_t kLater = 1;

// A thread of the program. It stops before each operation.
struct Thread {
  explicit Thread(std::function<void()> run) : fiber(std::move(run)) {}

  Fiber fiber;
  std::function<void()> act;
  Operation next;
  std::size_t location = 0;  // Of `next`.
  int site = 0;
  std::uint64_t result = 0;
  bool is_pausing = false;  // Since its last operation.
  int early_ends = 0;       // Of its sleeps.
  Callers callers;
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

// A step, for the trace.
struct Line {
  Step step;
  Operation operation;
  std::size_t location;
  int site;
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

class Explorer;
Explorer* current = nullptr;

// A depth-first search. An execution follows the path of nodes_, whose last node has a new step.
// Then it adds nodes, and takes the first step of each.
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
    outcome_.sites = sites_.all();
    return outcome_;
  }

  // Called by the program, before its threads run.
  std::byte* memory(std::size_t bytes) override { return memory_.take(bytes); }
  void name(const void* location, const std::string& name) override {
    memory_.name(location, name);
  }
  void thread(std::function<void()> act) override {
    if (threads_ == kThreadsMax) std::abort();
    if (all_threads_.size() == static_cast<std::size_t>(threads_)) {
      all_threads_.push_back(std::make_unique<Thread>([this] { run_thread(); }));
    }
    memory_.add_thread(threads_);
    Thread& thread = thread_at(threads_++);
    thread.fiber.restart();
    thread.act = std::move(act);
    thread.is_pausing = false;
    thread.early_ends = 0;
    thread.callers = Callers();
  }
  void at_end(std::function<void()> act) override { at_end_.push_back(std::move(act)); }
  void keep(std::shared_ptr<void> object) override { kept_.push_back(std::move(object)); }

  // Called by the hooks, on the thread of the program that runs.
  std::uint64_t run(const Operation& operation) {
    Thread& thread = running();
    thread.next = operation;
    thread.location = memory_.location_of(operation.address, operation.bytes);
    thread.site = is_on_atomic(operation.kind)
                      ? sites_.number_of(operation, thread.callers, memory_[thread.location])
                      : 0;
    thread.fiber.leave();
    return thread.result;
  }
  void access(const void* address, std::size_t bytes, bool is_write) {
    const std::string race = memory_.access(running_, address, bytes, is_write);
    if (!race.empty()) fail(race);
  }
  void pause() { running().is_pausing = true; }
  void enter_function(const void* caller) { running().callers.enter(caller); }
  void leave_function() { running().callers.leave(); }
  bool has_wakes() const { return options_.has_wakes; }
  bool has_mutexes() const { return options_.has_mutexes; }

  // Ends the exploration. Does not return on a thread of the program.
  void fail(const std::string& what) {
    if (is_tearing_down_) return;
    if (fault_.empty()) fault_ = what + trace();
    if (running_ >= 0) running().fiber.leave();
  }

 private:
  Thread& thread_at(int thread) { return *all_threads_[static_cast<std::size_t>(thread)]; }
  const Thread& thread_at(int thread) const {
    return *all_threads_[static_cast<std::size_t>(thread)];
  }
  Thread& running() { return thread_at(running_); }

  // On the fiber of a thread.
  void run_thread() {
    std::string fault;
    try {
      in_program = true;
      running().act();
      in_program = false;
    } catch (const std::exception& error) {
      in_program = false;
      fault = error.what();
    }
    if (!fault.empty()) fail("thread " + std::to_string(running_) + ": " + fault);
  }

  // Until its next operation, or its end.
  void resume(int thread) {
    running_ = thread;
    running().fiber.resume();
    running_ = -1;
  }

  bool has_order(const Thread& thread, Half half) const {
    const Site& site = sites_[thread.site];
    const Site& weakened = options_.weakened.site;
    if (half == options_.weakened.half && site.caller == weakened.caller &&
        site.location == weakened.location) {
      return false;
    }
    if (half == Half::kAcquire) return site.acquires;
    return half == Half::kRelease ? site.releases : site.failure_acquires;
  }

  void add_choices(int thread, std::vector<std::int16_t>& choices) const {
    const Thread& its = thread_at(thread);
    if (its.fiber.has_ended()) return;
    const Kind kind = its.next.kind;
    if (chooses_message(kind)) {
      memory_.add_choices(thread, its.location, its.next, choices);
      return;
    }
    if (kind == Kind::kAsleep && its.early_ends == options_.early_ends_of_sleep) return;
    if (kind == Kind::kLock && memory_[its.location].holder >= 0) return;
    choices.push_back(0);
  }

  // Whether the next step of a thread, and one that another has done, can change places. Loads can:
  // what was written since is a new choice.
  static bool is_independent(const Thread& sleeper, const Done& other, bool has_written) {
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

  // Does the next operation of a thread, and lets the thread go on.
  void execute(const Step& step) {
    Thread& thread = thread_at(step.thread);
    thread.is_pausing = false;
    switch (thread.next.kind) {
      case Kind::kLoad:
      case Kind::kStore:
      case Kind::kUpdate:
      case Kind::kCompare:
        execute_on_atomic(step);
        break;
      case Kind::kSleep:
        // The kernel loads the word on this thread.
        memory_.read(step.thread, thread.location, step.choice, /*acquires=*/false);
        thread.result = value_of(thread.location, step.choice);
        if (thread.result == cut(thread.next.value, memory_[thread.location].bytes)) {
          thread.next.kind = Kind::kAsleep;
          return;
        }
        break;
      case Kind::kAsleep:
        if (step.choice == kLater) {
          memory_.see_all(step.thread);  // By now it sees what was written.
        } else {
          ++thread.early_ends;
        }
        break;
      case Kind::kWake:
        memory_.wake(step.thread, thread.location);
        end_sleeps(thread.location);
        if (!fault_.empty()) return;
        break;
      case Kind::kLock:
        memory_.lock(step.thread, thread.location);
        break;
      case Kind::kUnlock:
        memory_.unlock(step.thread, thread.location);
        break;
    }
    resume(step.thread);
  }

  void execute_on_atomic(const Step& step) {
    Thread& thread = thread_at(step.thread);
    const Operation& operation = thread.next;
    thread.result = value_of(thread.location, step.choice);
    const bool has_written = writes(operation, thread.result);
    if (operation.kind != Kind::kStore) {
      const bool fails = operation.kind == Kind::kCompare && !has_written;
      memory_.read(step.thread, thread.location, step.choice,
                   has_order(thread, fails ? Half::kFailureAcquire : Half::kAcquire));
    }
    if (!has_written) return;
    memory_.write(step.thread, thread.location,
                  {.value = operation.kind == Kind::kUpdate ? updated(operation, thread.result)
                                                            : operation.value,
                   .after = step.choice,
                   .is_update = operation.kind != Kind::kStore,
                   .releases = has_order(thread, Half::kRelease)});
  }

  void end_sleeps(std::size_t location) {
    for (int thread = 0; thread < threads_ && fault_.empty(); ++thread) {
      if (is_asleep(thread) && thread_at(thread).location == location) resume(thread);
    }
  }

  std::uint64_t value_of(std::size_t location, std::int16_t message) const {
    return memory_[location].messages[static_cast<std::size_t>(message)].value;
  }
  bool is_asleep(int thread) const {
    const Thread& its = thread_at(thread);
    return !its.fiber.has_ended() && its.next.kind == Kind::kAsleep;
  }

  void set_up() {
    threads_ = 0;
    lines_.clear();
    clear_heap();
    program_(*this);
    for (int thread = 0; thread < threads_ && fault_.empty(); ++thread) resume(thread);
  }

  void tear_down() {
    is_tearing_down_ = true;
    for (auto& each : all_threads_) each->act = nullptr;
    at_end_.clear();
    kept_.clear();
    memory_.clear();
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
      const Step step = nodes_[depth].steps[nodes_[depth].at];
      asleep = asleep_at(nodes_[depth], step.thread);
      const Thread& thread = thread_at(step.thread);
      lines_.push_back({step, thread.next, thread.location, thread.site});
      const Done done{thread.next.kind, thread.location};
      const auto& messages = memory_[done.location].messages;
      const std::size_t count = messages.size();
      rouse(asleep, step, done, /*has_written=*/false);
      execute(step);
      const bool has_written = messages.size() != count;
      if (has_written) rouse(asleep, step, done, has_written);
      if (thread.is_pausing) {
        // It would look again: another execution lets it look later.
        nodes_[depth].steps[nodes_[depth].at].has_paused = true;
        ++outcome_.left_out;
        if (!can_change(step.thread, asleep)) fail("deadlock: a thread looks for ever");
        break;
      }
    }
    tear_down();
  }

  // The threads that sleep when a thread does the step at which a node is: also those whose steps
  // were explored before.
  Asleep asleep_at(const Node& node, int runner) const {
    Asleep asleep = node.asleep;
    for (std::size_t i = 0; i < node.at; ++i) {
      const Step& before = node.steps[i];
      if (before.thread == runner) continue;
      Sleep& its = asleep[static_cast<std::size_t>(before.thread)];
      const std::size_t location = thread_at(before.thread).location;
      its.messages = static_cast<std::int16_t>(memory_[location].messages.size());
      its.only_pauses = its.only_pauses && before.has_paused;
    }
    asleep[static_cast<std::size_t>(runner)] = Sleep();
    return asleep;
  }

  // The threads whose next step must be explored again after this one.
  void rouse(Asleep& asleep, const Step& step, const Done& done, bool has_written) const {
    for (int thread = 0; thread < threads_; ++thread) {
      if (thread == step.thread) continue;
      if (!is_independent(thread_at(thread), done, has_written)) {
        asleep[static_cast<std::size_t>(thread)] = Sleep();
      }
    }
  }

  // Whether anything may happen before a thread looks again.
  bool can_change(int looker, const Asleep& asleep) const {
    for (int thread = 0; thread < threads_; ++thread) {
      std::vector<std::int16_t> choices;
      add_choices(thread, choices);
      if (choices.empty()) continue;
      const Sleep& sleep = asleep[static_cast<std::size_t>(thread)];
      const bool only_looks = thread == looker || (!sleep.is_awake() && sleep.only_pauses);
      if (!only_looks || memory_.has_news(thread)) return true;
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
      const Thread& its = thread_at(thread);
      has_ended = has_ended && its.fiber.has_ended();
      choices.clear();
      add_choices(thread, choices);
      const Sleep& sleep = asleep[static_cast<std::size_t>(thread)];
      const bool only_looks = !sleep.is_awake() && sleep.only_pauses && !memory_.has_news(thread);
      can_go_on = can_go_on || (!choices.empty() && !only_looks);
      for (const std::int16_t choice : choices) {
        const bool is_message = its.next.kind == Kind::kLoad || its.next.kind == Kind::kSleep;
        if (!sleep.is_awake() && (!is_message || choice < sleep.messages)) continue;
        node.steps.push_back({thread, choice});
      }
    }
    if (node.steps.empty() && can_go_on) {
      ++outcome_.left_out;
      return false;
    }
    if (node.steps.empty() && !has_ended && options_.sleeps_end) {
      for (int thread = 0; thread < threads_; ++thread) {
        if (is_asleep(thread)) node.steps.push_back({thread, kLater});
      }
    }
    if (!node.steps.empty()) {
      nodes_.push_back(std::move(node));
      return true;
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

  std::string trace() const {
    std::string text;
    for (const Line& line : lines_) {
      const Kind kind = line.operation.kind;
      text += "\n  thread " + std::to_string(line.step.thread) + ": ";
      text += is_on_atomic(kind) ? sites_[line.site].text
                                 : memory_[line.location].name + "." + name_of(line.operation);
      if (chooses_message(kind)) {
        text += kind == Kind::kStore ? ", after " : ", of ";
        text += std::to_string(value_of(line.location, line.step.choice));
      }
    }
    return text;
  }

  const Program& program_;
  const Options options_;
  Outcome outcome_;
  std::string fault_;
  Memory memory_;
  Sites sites_;
  std::vector<std::unique_ptr<Thread>> all_threads_;
  int threads_ = 0;
  int running_ = -1;
  bool is_tearing_down_ = false;
  std::vector<std::function<void()>> at_end_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<Node> nodes_;  // The path of the execution, with what is left to explore.
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

bool is_running() { return in_program; }
bool has_wakes() { return in_program && current->has_wakes(); }
bool has_mutexes() { return in_program && current->has_mutexes(); }

bool is_modeled(const void* address) { return in_program && Memory::contains(address); }

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

}  // namespace distrun::shm::model
