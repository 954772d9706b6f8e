#include "sharing/spawn/process_set.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <c10/util/Exception.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

#include "common/deadline.h"
#include "common/os/packet_socket.h"
#include "distrun/result.h"

namespace distrun::internal {

namespace {

using std::chrono::milliseconds;

// For processes that survive SIGKILL: a disk or driver blocks them, perhaps forever.
constexpr std::chrono::seconds kKillPatience{10};

// All sets of this process, which its forks must abandon.
class LiveSets {
 public:
  static LiveSets& get() {
    static LiveSets* const sets = new LiveSets();  // Never freed: fork() may be called at exit.
    return *sets;
  }

  void insert(ProcessSet* set) {
    const std::lock_guard lock(mutex_);
    sets_.insert(set);
  }
  void erase(ProcessSet* set) {
    const std::lock_guard lock(mutex_);
    sets_.erase(set);
  }

 private:
  LiveSets() { ::pthread_atfork(before_fork, in_parent, in_child); }

  static void before_fork() { get().mutex_.lock(); }
  static void in_parent() { get().mutex_.unlock(); }
  static void in_child() {
    for (ProcessSet* set : get().sets_) set->abandon();
    get().mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<ProcessSet*> sets_;
};

int milliseconds_until(ProcessSet::Clock::time_point until) {
  if (until == ProcessSet::Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(until - ProcessSet::Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

}  // namespace

ProcessSet::ProcessSet(milliseconds grace_period)
    : grace_period_(grace_period), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  TORCH_CHECK(epoll_, "spawn: ", Error::from_errno("epoll_create1").message);
  LiveSets::get().insert(this);
}

ProcessSet::~ProcessSet() {
  try {
    end_rest();
  } catch (...) {
    // The destructor closes the lifelines, which ends the processes.
  }
  LiveSets::get().erase(this);
}

StartedProcess& ProcessSet::add(StartedProcess process) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = workers_.size()}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.pidfd.get(), &event) != 0) {
    const int error_number = errno;
    kill_and_reap(process.pid);
    TORCH_CHECK(false, "spawn: ", Error::from_errno("epoll_ctl", error_number).message);
  }
  Worker& worker = workers_.emplace_back(Worker{std::move(process)});
  ++alive_;
  return worker.process;
}

bool ProcessSet::join(Clock::time_point until) {
  TORCH_CHECK(!is_abandoned_,
              "join: these processes were started by another process, of which this "
              "one is a fork");
  for (;;) {
    if (failure_) {
      end_rest();
      std::rethrow_exception(failure_);
    }
    if (alive_ == 0) return true;
    if (!wait(until)) return false;
  }
}

bool ProcessSet::wait_to_send(const StartedProcess& process, bool is_full,
                              Clock::time_point until) {
  const short room = is_full ? POLLOUT : 0;
  pollfd waits[] = {{epoll_.get(), POLLIN, 0}, {process.control.get(), room, 0}};
  ::poll(waits, 2, milliseconds_until(until));
  if (waits[0].revents != 0) wait(Clock::now());
  return !failure_ && process.control;
}

void ProcessSet::finish(Clock::time_point until, milliseconds timeout) {
  if (join(until)) return;
  failure_ = std::make_exception_ptr(ProcessTimedOut(alive(), timeout.count()));
  end_rest();
  std::rethrow_exception(failure_);
}

std::vector<pid_t> ProcessSet::pids() const {
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_) pids.push_back(worker.process.pid);
  return pids;
}

void ProcessSet::abandon() {
  for (Worker& worker : workers_) {
    StartedProcess& process = worker.process;
    process.pidfd.reset();
    process.control.reset();
    process.lifeline.reset();
    process.lifeline_of_worker.reset();
  }
  epoll_.reset();
  alive_ = 0;
  is_abandoned_ = true;
}

bool ProcessSet::wait(Clock::time_point until) {
  std::array<epoll_event, 16> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 milliseconds_until(until));
  TORCH_CHECK(count >= 0 || errno == EINTR, "spawn: ", Error::from_errno("epoll_wait").message);
  for (int i = 0; i < count; ++i) take_end(workers_[events[static_cast<std::size_t>(i)].data.u64]);
  return count != 0 || Clock::now() < until;
}

void ProcessSet::take_end(Worker& worker) {
  StartedProcess& process = worker.process;
  const std::optional<ProcessEnd> end = reap(process);
  // Closing the pidfd is not enough: a fork made without the C library may still hold it.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process.pidfd.get(), nullptr);
  worker.has_ended = true;
  --alive_;
  listen(worker);
  if (!failure_) failure_ = failure_of(worker, end);
  process.pidfd.reset();
  process.control.reset();
  process.lifeline.reset();
}

void ProcessSet::listen(Worker& worker) {
  while (worker.process.control) {
    const auto packet = receive_packet(worker.process.control.get());
    if (!packet || packet->has_ended) return;
    auto report = parse_worker_message(packet->bytes);
    if (!report) continue;
    worker.stage = std::holds_alternative<WorkerHasReturned>(*report)
                       ? ProcessExitedException::Stage::kReturned
                       : ProcessExitedException::Stage::kBegun;
    if (auto* raised = std::get_if<WorkerHasRaised>(&*report)) worker.raised = std::move(*raised);
  }
}

std::exception_ptr ProcessSet::failure_of(const Worker& worker,
                                          const std::optional<ProcessEnd>& end) {
  if (worker.raised) return first_raised(worker);
  const bool has_returned = worker.stage == ProcessExitedException::Stage::kReturned;
  if (has_returned && succeeded(end.value_or(ExitedWith{0}))) return nullptr;
  return std::make_exception_ptr(
      ProcessExitedException(worker.process.index, worker.process.pid, end, worker.stage));
}

// Either process may end first, although one exception caused the other: returns the earlier
// exception.
std::exception_ptr ProcessSet::first_raised(const Worker& worker) {
  const Worker* first = &worker;
  for (Worker& other : workers_) {
    listen(other);
    if (other.raised && other.raised->at < first->raised->at) first = &other;
  }
  return std::make_exception_ptr(ProcessRaisedException(first->process.index, first->process.pid,
                                                        first->raised->type, first->raised->text));
}

void ProcessSet::end_rest() {
  for (const auto& [signal, patience] :
       {std::pair(SIGTERM, grace_period_), std::pair(SIGKILL, milliseconds(kKillPatience))}) {
    if (alive_ == 0) return;
    for (const Worker& worker : workers_) {
      if (worker.has_ended) continue;
      send_signal(worker.process, signal);
      send_signal(worker.process, SIGCONT);  // A stopped process does not handle SIGTERM.
    }
    const auto until = deadline_after(patience);
    while (alive_ > 0 && wait(until)) continue;
  }
  alive_ = 0;
}

std::vector<int> ProcessSet::alive() const {
  std::vector<int> indices;
  for (const Worker& worker : workers_) {
    if (!worker.has_ended) indices.push_back(worker.process.index);
  }
  return indices;
}

}  // namespace distrun::internal
