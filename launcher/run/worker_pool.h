// WorkerPool holds the processes of a run: it starts, signals and reaps workers, reports their
// exits, and kills what they leak.
//
//     WorkerPool workers(io, plan, /*in=*/0, on_exit);
//     if (auto opened = workers.open(); !opened) return opened.error();
//     workers.begin_attempt();
//     auto started = workers.start(LocalRank(0), place, {.out = out, .err = err});
//     workers.watch(LocalRank(0));             // from here on on_exit may be called
//     …
//     workers.reap(LocalRank(0));              // after its exit
//     workers.kill_leaked(std::chrono::seconds(10));
//     workers.close();
//
// A process group is signalled only until its worker is reaped, so no signal can hit an unrelated
// process. Thread safety: the thread of `io` only.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "common/rank.h"
#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/outcome/worker_facts.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/process/child_reaper.h"
#include "launcher/process/leaked_processes.h"
#include "launcher/process/worker_process.h"
#include "launcher/report/worker_table.h"

namespace distrun {

class WorkerPool {
 public:
  // The worker has ended, but is not reaped.
  using OnExit =
      std::function<void(LocalRank worker, ProcessEnd end, std::chrono::milliseconds run_time)>;

  struct Output {
    int out = -1, err = -1;  // The caller's.
  };

  // Local rank 0 reads `in`; -1: /dev/null.
  WorkerPool(boost::asio::io_context& io, const LaunchPlan& plan, int in, OnExit on_exit);

  // Kills all processes if an exception ends the run before close().
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Requires no earlier attempt. From here on, leaked processes that end are reaped.
  Result<void> open();

  // Requires that no process is left.
  void close();

  // Forgets the workers of the previous attempt.
  void begin_attempt();

  // Returns the pid.
  Result<pid_t> start(LocalRank local_rank, const RunPlace& place, const Output& output);

  // Calls `on_exit`, from the loop, when the worker ends.
  void watch(LocalRank local_rank);

  // Signals the worker's process group, then sends SIGCONT: a stopped process handles only SIGKILL.
  void signal(LocalRank local_rank, int signal);

  void forward(LocalRank local_rank, int signal);

  // Records processes in the worker's group, so that kill_leaked() can name them after reap().
  void note_leaked(LocalRank local_rank);

  // Kills the rest of the worker's process group, and reaps it.
  void reap(LocalRank local_rank);

  // Kills and reaps every child of this process. No exit is reported after this.
  KilledProcesses kill_leaked(std::chrono::milliseconds timeout);

  pid_t pid(LocalRank local_rank) const { return at(local_rank).process.pid; }

  // Requires that the worker has ended and is not reaped.
  bool has_dumped_core(LocalRank local_rank) const;

  // Whether `pid` is an unreaped worker.
  bool has(pid_t pid) const;

  std::vector<WorkerRow> rows() const;

  // Of running workers.
  std::vector<WorkerLoad> loads() const;

  // The processes in each running worker's session, the worker first.
  struct Processes {
    Rank rank{0};
    std::vector<pid_t> pids;
  };
  std::vector<Processes> running() const;

 private:
  struct Member {
    WorkerProcess process;
    std::optional<boost::asio::posix::stream_descriptor> exit;  // Its pidfd.
    bool reaped = false;
    std::chrono::steady_clock::time_point started;
    std::chrono::milliseconds run_time{0};
    std::optional<ProcessEnd> end;
  };

  Member& at(LocalRank worker) { return members_[static_cast<std::size_t>(worker.value())]; }
  const Member& at(LocalRank worker) const {
    return members_[static_cast<std::size_t>(worker.value())];
  }

  boost::asio::io_context& io_;
  const LaunchPlan& plan_;
  int in_;
  OnExit on_exit_;
  std::vector<Member> members_;             // By local rank.
  std::vector<LeakedProcess> noted_leaks_;  // From note_leaked().
  UniqueFd null_;                           // Set by open(): stdin of the other workers.
  ChildReaper reaper_;
  bool open_ = false;
};

std::vector<Rank> ranks_of(const std::vector<WorkerPool::Processes>& workers);

}  // namespace distrun
