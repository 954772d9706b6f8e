// Messages from one rank of a host to another, with tags.
//
//     Mailbox mailbox(ranks, sizes, policy);
//     auto sent = mailbox.send(data, bytes, to, tag, done);
//     auto received = mailbox.receive(buffer, bytes, from, tag, done);  // Or from kAnyRank.
//     mailbox.wait(*received, deadline);
//
// A message of a rank matches the first receive for it with the same tag, in the order of the
// calls. Messages without a receive are kept in this process, however many there are. A send is
// complete when the bytes have left the sender's memory.
//
// Messages pass through the receiver's ring for the sender, as a header and the bytes. A rank rings
// the bell of another after it wrote to its ring, or made room in one.
//
// The threads that wait move the bytes; if none waits, a thread of the mailbox does. It starts with
// the first message that is not complete at once.
//
// Errors: HostError. After an error the ranks fail (host_ranks.h), unless a message has the wrong
// size. Thread safety: any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/shm/host/host_ranks.h"
#include "backends/shm/host/patience.h"
#include "backends/shm/host/rank_memory.h"

namespace distrun::shm {

inline constexpr int kAnyRank = -1;

// A send or a receive. The memory belongs to the caller until it is complete.
class Message {
 public:
  // Called once, on any thread, when the message is complete or has failed. Must not throw.
  using Done = std::function<void(const std::exception_ptr&)>;

  // The sender, once a receive is complete.
  int peer() const { return peer_; }

 private:
  friend class Mailbox;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  int peer_ = kAnyRank;
  bool is_for_any_ = false;
  bool is_send_ = false;
  std::uint32_t tag_ = 0;
  std::size_t moved_ = 0;
  bool has_header_ = false;  // Of a send: it has been written.
  bool is_complete_ = false;
  // Of the wait for it.
  std::chrono::steady_clock::time_point begun_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  Done done_;
};

class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;
  using MessagePtr = std::shared_ptr<Message>;

  Mailbox(HostRanks& ranks, const MemorySizes& sizes, WaitPolicy policy);
  // Messages that are under way fail.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  MessagePtr send(const std::byte* data, std::size_t bytes, int to, std::uint32_t tag,
                  Message::Done done);
  MessagePtr receive(std::byte* data, std::size_t bytes, int from, std::uint32_t tag,
                     Message::Done done);

  // Moves messages until this one is complete or has failed; done() gets the error. A message for
  // which no thread waits has no deadline.
  void wait(Message& message, Clock::time_point deadline);

  // Whether the mailbox's thread calls it.
  bool is_own_thread();

  // Ends the sleep of all threads here and of those of other ranks that wait for messages.
  void wake_everybody() const;

 private:
  struct Header {
    std::uint64_t bytes = 0;
    std::uint32_t tag = 0;
    std::uint32_t unused = 0;
  };
  // A message that comes from a rank.
  struct Arriving {
    std::uint32_t tag = 0;
    std::size_t bytes = 0;
    std::size_t moved = 0;
    bool is_whole = false;
    bool is_dropped = false;      // Of the wrong size.
    MessagePtr receive;           // Null while there is none.
    std::vector<std::byte> kept;  // Its bytes, if there was none when it began.

    std::byte* destination() { return kept.empty() ? receive->data_ : kept.data(); }
  };
  struct Kept {
    int from = 0;
    std::shared_ptr<Arriving> message;
  };
  struct Finished {
    MessagePtr message;
    std::exception_ptr error;
  };
  // These require the mutex. Those that move return whether anything moved.
  bool move();
  bool move_or_fail();
  bool move_to(int rank);
  bool move_from(int rank);
  void begin_arrival(int rank, const Header& header);
  void finish_arrival(int rank);
  void give(int rank, const std::shared_ptr<Arriving>& arrival, const MessagePtr& receive);
  void complete(MessagePtr message, const std::exception_ptr& error = nullptr);
  void check(const std::vector<std::optional<HostError>>& gone) const;
  void fail_all(const HostError& error);
  // All messages that are under way.
  void fail_open(const HostError& error);
  std::string missing(const Message& message) const;
  void call_helper();

  // These let go of the lock meanwhile. The first calls done().
  void tell_finished(std::unique_lock<std::mutex>& lock);
  void drive_once(std::unique_lock<std::mutex>& lock, Patience& patience);

  void ring_bell_of(int rank) const;
  void help();

  HostRanks& ranks_;
  const MemorySizes sizes_;
  const WaitPolicy policy_;

  std::mutex mutex_;
  std::vector<std::deque<MessagePtr>> sends_;        // By receiver, in order.
  std::list<MessagePtr> receives_;                   // Without a message, in order.
  std::vector<std::shared_ptr<Arriving>> arriving_;  // By sender; null between messages.
  std::list<Kept> kept_;                             // In order of arrival.
  std::vector<Finished> finished_;                   // done() is to be called.
  int under_way_ = 0;
  int waiting_ = 0;  // Threads in wait().
  bool is_closed_ = false;
  bool helper_sleeps_ = false;
  std::condition_variable changed_;
  std::thread helper_;
};

}  // namespace distrun::shm
