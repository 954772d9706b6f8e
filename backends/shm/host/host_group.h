// The ranks of one host as a group: their memory, collectives and messages.
//
//     auto group = HostGroup::join(*meeting, rank, names, cards, deadline);
//     (*group)->run(timeout, [&](Collectives& collectives, Watch& watch) {
//       collectives.all_reduce(data, count, how, watch);
//     });
//     auto message = (*group)->mailbox().send(…);
//
// If a call fails, it fails on all ranks: those that wait for this rank learn at once that a call
// of this one failed, and why. From then on every call fails on this rank.
//
// Threads: one calls run(); any may call the others.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backends/shm/host/collectives.h"
#include "backends/shm/host/host_collectives.h"
#include "backends/shm/host/host_meeting.h"
#include "backends/shm/host/host_ranks.h"
#include "backends/shm/host/mailbox.h"
#include "backends/shm/host/peer_memory.h"
#include "backends/shm/host/phases.h"
#include "backends/shm/host/rank_region.h"
#include "backends/shm/host/shared_blocks.h"
#include "distrun/result.h"

namespace distrun::shm {

class HostGroup : public RankGroup {
 public:
  // `names` are the ranks' numbers in messages; `cards` are those of all ranks. Blocks until all
  // have come, or until the deadline.
  static Result<std::unique_ptr<HostGroup>> join(HostMeeting& meeting, int rank,
                                                 std::vector<int> names,
                                                 const std::vector<std::string>& cards,
                                                 Clock::time_point deadline);
  // Messages that are under way fail. Tells the other ranks that this one has left.
  ~HostGroup() override;
  HostGroup(const HostGroup&) = delete;
  HostGroup& operator=(const HostGroup&) = delete;

  // Deletes a group, on another thread if this is the mailbox's, for whose end the group waits.
  static void destroy(HostGroup* group);

  void run(const CallLimit& limit, Call call) override {
    run_on_host(limit, [call](HostCollectives& all, Watch& watch) { call(all, watch); });
  }
  void run_on_host(const CallLimit& limit, c10::function_ref<void(HostCollectives&, Watch&)> call);

  Mailbox& mailbox() { return *mailbox_; }

  SharedBlocks& blocks() override { return blocks_; }

  // Ends messages, too.
  void abort() override;

 private:
  class Running;
  class Watching;

  HostGroup(int rank, std::vector<int> names, const MemorySizes& sizes,
            std::vector<RankRegion> regions, std::vector<UniqueFd> presences,
            std::vector<pid_t> processes, int cpus);
  // Tells the other ranks, and ends all later calls.
  void fail(const HostError& error);
  void wake_everybody() const;

  const std::vector<RankRegion> regions_;
  HostRanks ranks_;
  Phases phases_;
  SharedBlocks blocks_;
  const PeerMemory peers_;
  HostCollectives collectives_;
  std::unique_ptr<Mailbox> mailbox_;
  std::atomic<bool> is_running_ = false;  // A call.
};

}  // namespace distrun::shm
