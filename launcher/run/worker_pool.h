// WorkerPool has the processes of a run: it starts, signals and reaps workers, sees their exits,
// and kills and reaps the processes that they leak.
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
// A worker's process group is signalled only until the worker is reaped, so no signal can hit a
// stranger.  Thread safety: every method runs on the thread of `io`.
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
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/process/child_reaper.h"
#include "launcher/process/leaked_processes.h"
#include "launcher/process/worker_process.h"
#include "launcher/report/worker_table.h"

namespace distrun {

class WorkerPool {
 public:
  // The worker has ended; it is not reaped.
  using OnExit =
      std::function<void(LocalRank worker, ProcessEnd end, std::chrono::milliseconds run_time)>;

  struct Output {
    int out = -1, err = -1;  // The caller's.
  };

  // `in` is what local rank 0 reads; -1: nothing.
  WorkerPool(boost::asio::io_context& io, const LaunchPlan& plan, int in, OnExit on_exit);

  // If an exception ends the run before close(), none of its processes may stay: kills them.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Before the first attempt.  From here on leaked processes that have ended are reaped.
  Result<void> open();

  // After the last attempt.  Requires that none of its processes is left.
  void close();

  // Forgets the workers of the previous attempt.
  void begin_attempt();

  // Starts the process.  Returns its pid.
  Result<pid_t> start(LocalRank local_rank, const RunPlace& place, const Output& output);

  // Calls `on_exit`, from the loop, when the worker ends.
  void watch(LocalRank local_rank);

  // To the worker's process group, which SIGCONT then wakes up: a stopped process takes no signal
  // but SIGKILL.
  void signal(LocalRank local_rank, int signal);

  // To the worker alone.
  void forward(LocalRank local_rank, int signal);

  // Notes the processes that the worker has leaked into its group: kill_leaked() names them, though
  // reap() kills them.
  void note_leaked(LocalRank local_rank);

  // Kills what is left of the worker's process group, and reaps it.
  void reap(LocalRank local_rank);

  // Kills every child of this process, and reaps it.  No exit is reported after this.
  KilledProcesses kill_leaked(std::chrono::milliseconds timeout);

  pid_t pid(LocalRank local_rank) const { return at(local_rank).process.pid; }

  // Whether the worker has left a core.  Requires that it has ended and is not reaped.
  bool has_dumped_core(LocalRank local_rank) const;

  // Whether `pid` is a worker that is not reaped.
  bool has(pid_t pid) const;

  // Where each worker stands now.
  std::vector<WorkerRow> rows() const;

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
  std::vector<LeakedProcess> noted_leaks_;  // Of note_leaked().
  UniqueFd null_;                           // From open() on: what the other workers read.
  ChildReaper reaper_;
  bool open_ = false;
};

}  // namespace distrun
