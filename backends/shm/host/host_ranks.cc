#include "backends/shm/host/host_ranks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "backends/shm/host/text_of.h"

namespace distrun::shm {

namespace {

// Another process may write to it at any time.
std::string reason_in(const Heading& heading) {
  std::array<char, sizeof(heading.reason)> text = heading.reason;
  text.back() = '\0';
  return text.data();
}

}  // namespace

void store_failure(Heading& heading, const std::string& reason) {
  if (heading.state.load(std::memory_order_acquire) != RankState::kAlive) return;
  const std::size_t size = std::min(reason.size(), heading.reason.size() - 1);
  std::memcpy(heading.reason.data(), reason.data(), size);
  heading.reason[size] = '\0';
  heading.state.store(RankState::kFailed, std::memory_order_release);
}

HostRanks::HostRanks(int me, std::vector<int> names, std::vector<RankMemory*> memories,
                     std::vector<UniqueFd> presences)
    : me_(me),
      names_(std::move(names)),
      memories_(std::move(memories)),
      presences_(std::move(presences)),
      process_(::getpid()) {}

bool HostRanks::is_of_this_process() const { return ::getpid() == process_; }

HostError HostRanks::failure_of(int rank) const {
  return {HostError::Kind::kFailed, rank,
          text_of("a call failed on rank ", name_of(rank), ": ", reason_in(memory(rank).heading))};
}

HostError HostRanks::leave_of(int rank) const {
  return {HostError::Kind::kLeft, rank, text_of("rank ", name_of(rank), " has left the group")};
}

void HostRanks::check_failed() const {
  for (int rank = 0; rank < count(); ++rank) {
    const auto state = memory(rank).heading.state.load(std::memory_order_acquire);
    if (rank == me_ || state == RankState::kAlive || state == RankState::kLeft) continue;
    throw state == RankState::kFailed ? failure_of(rank) : leave_of(rank);
  }
}

std::vector<std::optional<HostError>> HostRanks::gone() const {
  using Kind = HostError::Kind;
  std::vector<pollfd> presences;
  presences.reserve(presences_.size());
  for (const UniqueFd& each : presences_) {
    presences.push_back({.fd = each.get(), .events = POLLIN, .revents = 0});
  }
  ::poll(presences.data(), presences.size(), 0);
  std::vector<std::optional<HostError>> all(memories_.size());
  for (int rank = 0; rank < count(); ++rank) {
    if (rank == me_) continue;
    const auto index = static_cast<std::size_t>(rank);
    const Heading& its = memory(rank).heading;
    const auto state = its.state.load(std::memory_order_acquire);
    if (state == RankState::kFailed) {
      all[index] = failure_of(rank);
    } else if (state == RankState::kLeft || state == RankState::kAborted) {
      all[index] = leave_of(rank);
    } else if (presences[index].revents != 0) {
      all[index].emplace(Kind::kEnded, rank, text_of("rank ", name_of(rank), " has ended"));
    }
  }
  return all;
}

void HostRanks::fail(const HostError& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_.emplace(error.kind(), error.rank(),
                   text_of("an earlier call of the group failed: ", error.what()));
  has_failed_ = true;
  if (is_of_this_process()) store_failure(memory(me_).heading, error.what());
}

void HostRanks::leave(RankState how) {
  if (!is_of_this_process()) return;
  auto alive = RankState::kAlive;
  memory(me_).heading.state.compare_exchange_strong(alive, how, std::memory_order_acq_rel);
}

void HostRanks::abort(const std::atomic<bool>& is_running) {
  is_aborted_ = true;
  // A call that starts after that fails before the others learn of it.
  leave(is_running ? RankState::kAborted : RankState::kLeft);
}

void HostRanks::check_usable() const {
  if (is_aborted_) {
    throw HostError(HostError::Kind::kAborted, me_, "the group has been aborted");
  }
  if (!has_failed_) return;
  const std::lock_guard lock(mutex_);
  throw *failure_;
}

}  // namespace distrun::shm
