#include "launcher/run/worker_pool.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include <boost/asio/post.hpp>
#include <fcntl.h>

#include "common/os/process_stat.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

using boost::asio::posix::stream_descriptor;
using std::chrono::steady_clock;

namespace {

std::chrono::milliseconds time_since(steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - start);
}

}  // namespace

WorkerPool::WorkerPool(boost::asio::io_context& io, const LaunchPlan& plan, int in, OnExit on_exit)
    : io_(io), plan_(plan), in_(in), on_exit_(std::move(on_exit)), reaper_(io, [this](pid_t pid) {
        return has(pid);
      }) {}

WorkerPool::~WorkerPool() {
  if (open_) kill_leaked_processes(std::chrono::seconds(5));
}

Result<void> WorkerPool::open() {
  null_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_) return Error::from_errno("open /dev/null");
  reaper_.begin();
  open_ = true;
  return {};
}

void WorkerPool::close() {
  reaper_.end();
  open_ = false;
}

void WorkerPool::begin_attempt() {
  // Their events may still be in the loop.
  auto retired = std::make_shared<std::vector<Member>>(std::exchange(members_, {}));
  boost::asio::post(io_, [retired] {});
  members_.resize(plan_.workers.size());
}

Result<pid_t> WorkerPool::start(LocalRank local_rank, const RunPlace& place, const Output& output) {
  const WorkerPlan& planned = plan_.workers[static_cast<std::size_t>(local_rank.value())];
  const bool reads = local_rank == LocalRank(0) && in_ >= 0;
  auto process = spawn_process({.executable = plan_.executable,
                                .arguments = planned.arguments,
                                .environment = worker_environment(plan_, planned, place),
                                .in = reads ? in_ : null_.get(),
                                .out = output.out,
                                .err = output.err,
                                .kept = plan_.options.engine_socket.value_or(-1),
                                .cpus = planned.cpus});
  if (!process) return process.error();
  Member& member = at(local_rank);
  member.process = std::move(*process);
  member.started = steady_clock::now();
  return member.process.pid;
}

void WorkerPool::watch(LocalRank local_rank) {
  Member& member = at(local_rank);
  member.exit.emplace(io_, member.process.pidfd.release());
  member.exit->async_wait(
      stream_descriptor::wait_read, [this, local_rank](boost::system::error_code error) {
        if (error) return;
        Member& ended = at(local_rank);
        ended.run_time = time_since(ended.started);
        // No other code of this process reaps it.
        ended.end = look_at_end(ended.process).value_or(ExitedWith{kExitInternal});
        on_exit_(local_rank, *ended.end, ended.run_time);
      });
}

void WorkerPool::signal(LocalRank local_rank, int signal) {
  signal_group(at(local_rank).process, signal);
  const bool stops = signal == SIGSTOP || signal == SIGKILL;
  if (!stops) signal_group(at(local_rank).process, SIGCONT);
}

void WorkerPool::forward(LocalRank local_rank, int signal) {
  signal_process(at(local_rank).process, signal);
}

void WorkerPool::note_leaked(LocalRank local_rank) {
  for (const LeakedProcess& one : members_of_group(at(local_rank).process.pid)) {
    noted_leaks_.push_back(one);
  }
}

void WorkerPool::reap(LocalRank local_rank) {
  Member& member = at(local_rank);
  end_group(member.process);
  member.reaped = true;
  member.exit.reset();
}

KilledProcesses WorkerPool::kill_leaked(std::chrono::milliseconds timeout) {
  // Stop watching workers that SIGKILL did not end.
  for (Member& member : members_) member.exit.reset();
  KilledProcesses leaked = kill_leaked_processes(timeout);
  // A process that was killed with its group but still exists is in both lists.
  for (const LeakedProcess& one : std::exchange(noted_leaks_, {})) {
    const auto same = [&](const LeakedProcess& other) { return other.pid == one.pid; };
    if (std::none_of(leaked.killed.begin(), leaked.killed.end(), same)) {
      leaked.killed.push_back(one);
    }
  }
  return leaked;
}

bool WorkerPool::has_dumped_core(LocalRank local_rank) const {
  return distrun::has_dumped_core(at(local_rank).process);
}

bool WorkerPool::has(pid_t pid) const {
  return std::any_of(members_.begin(), members_.end(), [pid](const Member& member) {
    return !member.reaped && member.process.pid == pid;
  });
}

std::vector<WorkerPool::Processes> WorkerPool::running() const {
  auto sessions = processes_by_session();
  std::vector<Processes> running;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.process.pid < 0 || member.end || member.reaped) continue;
    Processes& one = running.emplace_back();
    one.rank = plan_.workers[i].rank;
    one.pids.push_back(member.process.pid);
    for (const pid_t pid : sessions[member.process.pid]) {
      if (pid != member.process.pid) one.pids.push_back(pid);
    }
  }
  return running;
}

std::vector<WorkerRow> WorkerPool::rows() const {
  const auto sessions = processes_by_session();
  std::vector<WorkerRow> rows;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    WorkerRow row{.rank = plan_.workers[i].rank, .pid = member.process.pid, .end = member.end};
    row.run_time = member.end ? member.run_time : time_since(member.started);
    row.output_open = member.end && !member.reaped;
    if (row.pid > 0 && !row.end) row.stat = read_process_stat(row.pid);
    const auto session = member.reaped ? sessions.end() : sessions.find(row.pid);
    if (session != sessions.end()) row.processes = static_cast<int>(session->second.size());
    rows.push_back(row);
  }
  return rows;
}

std::vector<WorkerLoad> WorkerPool::loads() const {
  std::vector<WorkerLoad> loads;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& member = members_[i];
    if (member.process.pid <= 0 || member.end) continue;
    const auto stat = read_process_stat(member.process.pid);
    if (!stat) continue;
    loads.push_back({LocalRank(static_cast<int>(i)), stat->cpu_time, stat->resident_bytes});
  }
  return loads;
}

std::vector<Rank> ranks_of(const std::vector<WorkerPool::Processes>& workers) {
  std::vector<Rank> ranks;
  ranks.reserve(workers.size());
  for (const auto& worker : workers) ranks.push_back(worker.rank);
  return ranks;
}

}  // namespace distrun
