// Reports which ranks of a group have left it, failed or ended.
//
//     HostRanks ranks(me, names, memories, presences);
//     for (const auto& error : ranks.gone()) if (error) throw *error;
//     ranks.fail(error);  // The other ranks learn it.
//
// Thread safety: any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/rank_memory.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {

// Says in the heading of a rank that a call failed on it. The first reason stays.
void store_failure(Heading& heading, const std::string& reason);

class HostRanks {
 public:
  // By rank. `names` are the ranks' numbers in messages; this rank's presence is empty.
  HostRanks(int me, std::vector<int> names, std::vector<RankMemory*> memories,
            std::vector<UniqueFd> presences);

  int me() const { return me_; }
  int count() const { return static_cast<int>(memories_.size()); }
  int name_of(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& names() const { return names_; }
  RankMemory& memory(int rank) const { return *memories_[static_cast<std::size_t>(rank)]; }
  const std::vector<RankMemory*>& memories() const { return memories_; }

  // The error for each rank that is gone; what it did before may still count. Costs a system call.
  std::vector<std::optional<HostError>> gone() const;

  // Throws if a call of any rank has failed, or may have because the rank has aborted its group.
  void check_failed() const;

  // False in a child of fork(), which must not speak for the rank.
  bool is_of_this_process() const;

  // A call of this rank failed: the others learn it, and every later check_usable() throws.
  void fail(const HostError& error);
  // This rank takes part in no later call. Neither wakes ranks that wait.
  void leave() { leave(RankState::kLeft); }
  // `is_running`: set while a call runs.
  void abort(const std::atomic<bool>& is_running);

  // Throws if a call has failed here, or abort() was called.
  void check_usable() const;

 private:
  HostError failure_of(int rank) const;
  HostError leave_of(int rank) const;
  void leave(RankState how);

  const int me_;
  const std::vector<int> names_;
  const std::vector<RankMemory*> memories_;
  const std::vector<UniqueFd> presences_;
  const pid_t process_;
  std::atomic<bool> is_aborted_ = false;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_;
  std::optional<HostError> failure_;  // The first.
};

}  // namespace distrun::shm
