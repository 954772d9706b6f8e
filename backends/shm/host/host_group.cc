#include "backends/shm/host/host_group.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "backends/shm/host/full_fence.h"
#include "backends/shm/host/host_error.h"
#include "backends/shm/host/patience.h"
#include "backends/shm/host/text_of.h"
#include "common/os/tick_clock.h"
#include "common/text/rank_list.h"

namespace distrun::shm {

namespace {

// The slots of all ranks should fit into the caches.
constexpr std::size_t kSlotBytes = std::size_t{512} * 1024;
// The rings of one rank together.
constexpr std::size_t kRingsBytes = std::size_t{4} * 1024 * 1024;
constexpr std::size_t kRingBytesMax = std::size_t{256} * 1024;
constexpr std::size_t kRingBytesMin = std::size_t{16} * 1024;

MemorySizes memory_sizes(int ranks) {
  const std::size_t share = std::bit_floor(kRingsBytes / static_cast<std::size_t>(ranks));
  return {.ranks = ranks,
          .slot_bytes = kSlotBytes,
          .ring_bytes = std::clamp(share, kRingBytesMin, kRingBytesMax)};
}

// c10's exceptions append a backtrace, which is of no use on other ranks.
std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::vector<RankMemory*> memories_of(const std::vector<RankRegion>& regions) {
  std::vector<RankMemory*> memories;
  memories.reserve(regions.size());
  for (const RankRegion& each : regions) memories.push_back(&each.memory());
  return memories;
}

}  // namespace

// Sets a flag while it lives.
class HostGroup::Running {
 public:
  explicit Running(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Running() { flag_.store(false, std::memory_order_release); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<bool>& flag_;
};

class HostGroup::Watching : public Watch {
 public:
  Watching(const HostRanks& ranks, const Phases& phases, const CallLimit& limit)
      : ranks_(ranks), phases_(phases), limit_(limit) {}

  void waits() override {
    if (wait_) return;
    const auto deadline = limit_.deadline();
    wait_ = {.begin = tick_before_now(), .given_deadline = deadline, .deadline = deadline};
  }

  // So the time-out is that of a call, also if this rank waits for several calls of another one.
  void advances() override {
    if (!wait_) return;
    const auto prolonged = wait_->prolonged;
    wait_.reset();
    prolong(prolonged);
  }

  void check(int /*rank*/) override {
    waits();
    ranks_.check_usable();
    const auto gone = ranks_.gone();
    // Data that a rank published before it left or ended counts. A rank that failed does not wait
    // for the others, so they do not wait either.
    for (const auto& error : gone) {
      if (!error) continue;
      const bool has_failed = error->kind() == HostError::Kind::kFailed;
      if (has_failed || !phases_.has_published(error->rank())) throw *error;
    }
    const auto now = Clock::now();
    if (now < wait_->deadline) return;
    const auto waited = std::chrono::ceil<std::chrono::milliseconds>(now - wait_->begin);
    const std::vector<int> names = missing();
    throw HostError(names, text_of("timed out after ", waited.count(),
                                   "ms: ", names.empty() ? "a rank" : list_of_ranks(names),
                                   names.empty() ? " came too late" : " did not come"));
  }

  void check_failed() override { ranks_.check_failed(); }

  void check_present() override {
    for (const auto& error : ranks_.gone()) {
      if (error) throw *error;
    }
  }

  void prolong(std::chrono::milliseconds by) override {
    waits();
    wait_->prolonged = std::max(wait_->prolonged, by);
    wait_->deadline = std::max(wait_->deadline, postponed(wait_->given_deadline, by));
  }

 private:
  std::vector<int> missing() const {
    std::vector<int> names;
    for (int rank = 0; rank < ranks_.count(); ++rank) {
      if (rank == ranks_.me() || phases_.has_published(rank)) continue;
      names.push_back(ranks_.name_of(rank));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const HostRanks& ranks_;
  const Phases& phases_;
  const CallLimit& limit_;
  struct Wait {
    Clock::time_point begin, given_deadline, deadline;
    std::chrono::milliseconds prolonged{0};
  };
  std::optional<Wait> wait_;
};

Result<std::unique_ptr<HostGroup>> HostGroup::join(HostMeeting& meeting, int rank,
                                                   std::vector<int> names,
                                                   const std::vector<std::string>& cards,
                                                   Clock::time_point deadline) {
  const int ranks = static_cast<int>(cards.size());
  const MemorySizes sizes = memory_sizes(ranks);
  auto mine = RankRegion::create(rank, sizes);
  if (!mine) return mine.error();
  // A peer that has this memory already learns why this rank does not come.
  const auto failed = [&heading = mine->memory().heading](const Error& error) {
    store_failure(heading, error.message);
    return error;
  };
  auto peers = meeting.meet(cards, names, mine->descriptor(), deadline);
  if (!peers) return failed(peers.error());
  std::vector<RankRegion> regions;
  std::vector<UniqueFd> presences;
  std::vector<pid_t> processes;
  for (int each = 0; each < ranks; ++each) {
    HostPeer& peer = (*peers)[static_cast<std::size_t>(each)];
    presences.push_back(std::move(peer.presence));
    processes.push_back(peer.process);
    if (each == rank) {
      regions.push_back(std::move(*mine));
      continue;
    }
    auto region = RankRegion::map(std::move(peer.memory), each, sizes);
    if (!region) return failed(region.error());
    regions.push_back(std::move(*region));
  }
  const int cpus = count_cpus(regions);
  std::unique_ptr<HostGroup> group(new HostGroup(rank, std::move(names), sizes, std::move(regions),
                                                 std::move(presences), std::move(processes), cpus));
  try {
    group->run_on_host(deadline, [](HostCollectives& all, Watch& watch) { all.meet(watch); });
  } catch (const HostError& error) {
    return Error{ErrorKind::kSystem, error.what()};
  }
  return group;
}

HostGroup::HostGroup(int rank, std::vector<int> names, const MemorySizes& sizes,
                     std::vector<RankRegion> regions, std::vector<UniqueFd> presences,
                     std::vector<pid_t> processes, int cpus)
    : regions_(std::move(regions)),
      ranks_(rank, std::move(names), memories_of(regions_), std::move(presences)),
      phases_(ranks_.memories(), sizes, rank, wait_policy(ranks_.count(), cpus)),
      blocks_(regions_, rank),
      peers_(std::move(processes)),
      collectives_(phases_, ranks_.names(), blocks_, peers_, /*have_cpus=*/ranks_.count() <= cpus),
      mailbox_(std::make_unique<Mailbox>(ranks_, sizes, wait_policy(ranks_.count(), cpus))) {}

HostGroup::~HostGroup() {
  mailbox_.reset();
  if (!ranks_.is_of_this_process()) return;
  ranks_.leave();
  phases_.wake_everybody();
}

void HostGroup::destroy(HostGroup* group) {
  if (group->mailbox_->is_own_thread()) {
    std::thread([group] { delete group; }).detach();
  } else {
    delete group;
  }
}

void HostGroup::run_on_host(const CallLimit& limit,
                            c10::function_ref<void(HostCollectives&, Watch&)> call) {
  const Running running(is_running_);
  ranks_.check_usable();
  Watching watch(ranks_, phases_, limit);
  try {
    call(collectives_, watch);
  } catch (const HostError& error) {
    fail(error);
    throw;
  } catch (const std::exception& error) {  // Such as std::bad_alloc: the other ranks went on.
    fail(HostError(HostError::Kind::kFailed, ranks_.me(), first_line(error.what())));
    throw;
  } catch (...) {
    fail(HostError(HostError::Kind::kFailed, ranks_.me(), "an exception without a text"));
    throw;
  }
}

void HostGroup::fail(const HostError& error) {
  ranks_.fail(error);
  // Then the program may write to tensors that other ranks reduce in place.
  full_fence();
  wake_everybody();
}

void HostGroup::abort() {
  ranks_.abort(is_running_);
  wake_everybody();
}

void HostGroup::wake_everybody() const {
  phases_.wake_everybody();
  mailbox_->wake_everybody();
}

}  // namespace distrun::shm
