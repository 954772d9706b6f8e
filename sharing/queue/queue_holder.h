// QueueHolder is one process's hold on a queue: the descriptors, and what the kernel does with
// them.
//
//     producers ── packets of one size ──▶ socket pair ──▶ consumers
//         ▲                                                   │
//         └────────────── places: an eventfd ◀────────────────┘
//
// The items in the queue are the packets in the socket: the kernel counts them (SIOCINQ, as all are
// of one size), so that nothing is to be set right after a process that was killed.  Who puts
// counts and sends under a lock that the kernel takes from the dead.  The eventfd only wakes who
// waits for a place: it may count too much or too little, so a wait is of kLookAgain at most.
//
// Errors: c10::Error of what the kernel refuses.  Threads: any.  fork(): the child gets a presence
// of its own (pthread_atfork); where there is no room for one, it counts as its parent.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/packet_socket.h"
#include "common/os/unique_fd.h"
#include "distrun/tensor_queue.h"
#include "sharing/memory/holder_presence.h"

namespace distrun::internal {

inline constexpr std::size_t kItemPacketBytes = 640;
inline constexpr std::chrono::milliseconds kLookAgain{100};

enum class PutOutcome { kPut, kFull, kSomebodyPuts };

class QueueHolder {
 public:
  using Clock = std::chrono::steady_clock;

  struct Parts {
    std::string name;
    std::size_t capacity = 0;
    UniqueFd sender, receiver, places;
    HolderPresence presence;
    bool had_others = false;
  };

  // Throws c10::ValueError for a capacity that the kernel's buffers do not allow.
  static std::shared_ptr<const QueueHolder> make(std::size_t capacity, std::string name);

  // Of descriptors from another process.
  static std::shared_ptr<const QueueHolder> taken_over(Parts parts);

  // Another holder, in this process.
  std::shared_ptr<const QueueHolder> another(Abilities abilities) const;

  // A presence for a process that this queue is sent to.
  HolderPresence presence_for_another() const;

  ~QueueHolder();
  QueueHolder(const QueueHolder&) = delete;
  QueueHolder& operator=(const QueueHolder&) = delete;

  // Never waits for another process: one that was stopped while it puts would hold this one up.
  // `bytes` has at most kItemPacketBytes.
  PutOutcome try_put(std::string bytes, const std::vector<int>& descriptors) const;

  // Nothing where it is empty.
  std::optional<Packet> try_get() const;

  std::size_t size() const;

  // Nobody else has this ability, but somebody else had, or this holder itself lacks it.
  bool is_without_others(Ability ability) const;

  // Waits for an item (to get) or a place (to put), until `deadline`, until who was found to have
  // `ability` may be gone, or for kLookAgain.
  void wait_for_item(Clock::time_point deadline) const;
  void wait_for_place(Clock::time_point deadline) const;

  // After so many tries that have found somebody who puts: the longer, the more there were.
  static void wait_for_putter(Clock::time_point deadline, int tries);

  // For messages: the queue "NAME".
  std::string description() const;

  Abilities abilities() const { return parts_.presence.abilities(); }
  const Parts& parts() const { return parts_; }

 private:
  friend class ForkHandlers;
  explicit QueueHolder(Parts parts);

  Parts parts_;
  mutable std::mutex put_mutex_;
  mutable std::atomic<bool> had_others_;
  std::optional<HolderPresence> for_child_;  // While fork() is at work.
};

// What a TensorQueue holds.
struct TensorQueueAccess {
  static TensorQueue make(std::shared_ptr<const QueueHolder> holder) {
    return TensorQueue(std::move(holder));
  }
  static const QueueHolder& holder(const TensorQueue& queue) { return queue.holder(); }
};

}  // namespace distrun::internal
