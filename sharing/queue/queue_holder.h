// QueueHolder is one process's part of a queue: descriptors, and system calls on them.
//
//     producers ── packets of one size ──▶ socket pair ──▶ consumers
//         ▲                                                   │
//         └────────────── places: an eventfd ◀────────────────┘
//
// The items are the packets in the socket.  The kernel counts them (SIOCINQ; all have one size), so
// a killed process leaves no count to repair.  A put counts and sends under a lock that the kernel
// releases if the process dies.  The eventfd only wakes processes that wait for a place; its count
// may be wrong, so waits last at most kLookAgain.
//
// Errors: c10::Error if a system call fails.  Threads: any.  fork(): the child gets its own
// presence (pthread_atfork), or shares its parent's if there is no room.
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

  // From descriptors of another process.
  static std::shared_ptr<const QueueHolder> taken_over(Parts parts);

  // A new holder in this process.
  std::shared_ptr<const QueueHolder> another(Abilities abilities) const;

  // A presence for a process to which this queue is sent.
  HolderPresence presence_for_another() const;

  ~QueueHolder();
  QueueHolder(const QueueHolder&) = delete;
  QueueHolder& operator=(const QueueHolder&) = delete;

  // Never waits for another process, which may be stopped during its put. `bytes` has at most
  // kItemPacketBytes.
  PutOutcome try_put(std::string bytes, const std::vector<int>& descriptors) const;

  // Empty if the queue is empty.
  std::optional<Packet> try_get() const;

  std::size_t size() const;

  // No other holder has this ability; one has had it, or this holder lacks it.
  bool is_without_others(Ability ability) const;

  // Waits for an item (to get) or a place (to put) until `deadline`, until a holder that could
  // provide it may have ended, or for kLookAgain.
  void wait_for_item(Clock::time_point deadline) const;
  void wait_for_place(Clock::time_point deadline) const;

  // Waits while another holder puts, longer with each try.
  static void wait_for_putter(Clock::time_point deadline, int tries);

  // For messages: 'the queue "NAME"'.
  std::string description() const;

  Abilities abilities() const { return parts_.presence.abilities(); }
  const Parts& parts() const { return parts_; }

 private:
  friend class ForkHandlers;
  explicit QueueHolder(Parts parts);

  Parts parts_;
  mutable std::mutex put_mutex_;
  mutable std::atomic<bool> had_others_;
  std::optional<HolderPresence> for_child_;  // During fork().
};

// Access to the holder of a TensorQueue.
struct TensorQueueAccess {
  static TensorQueue make(std::shared_ptr<const QueueHolder> holder) {
    return TensorQueue(std::move(holder));
  }
  static const QueueHolder& holder(const TensorQueue& queue) { return queue.holder(); }
};

}  // namespace distrun::internal
