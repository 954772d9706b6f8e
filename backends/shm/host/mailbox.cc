#include "backends/shm/host/mailbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/shm/host/futex.h"
#include "backends/shm/host/text_of.h"

namespace distrun::shm {

namespace {

// A thread that is about to wait moves its message itself.
constexpr std::chrono::milliseconds kGrace(1);
// How often the mailbox's thread looks again, after the last message, before it sleeps.
constexpr int kLooksBeforeSleep = 100;
// The peer can read the first bytes while the rank writes the next ones.
constexpr std::size_t kStepBytes = std::size_t{32} * 1024;

struct Place {
  std::byte* data;
  std::size_t ring_bytes;  // A power of two.

  std::size_t until_end(std::uint64_t at) const { return ring_bytes - offset(at); }
  std::size_t offset(std::uint64_t at) const { return at & (ring_bytes - 1); }
};

void copy_to(const Place& ring, std::uint64_t at, const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring.until_end(at));
  if (first != 0) std::memcpy(ring.data + ring.offset(at), from, first);
  if (bytes > first) std::memcpy(ring.data, from + first, bytes - first);
}

void copy_from(const Place& ring, std::uint64_t at, std::byte* to, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring.until_end(at));
  if (first != 0) std::memcpy(to, ring.data + ring.offset(at), first);
  if (bytes > first) std::memcpy(to + first, ring.data, bytes - first);
}

}  // namespace

Mailbox::Mailbox(HostRanks& ranks, const MemorySizes& sizes, WaitPolicy policy)
    : ranks_(ranks),
      sizes_(sizes),
      policy_(policy),
      sends_(static_cast<std::size_t>(ranks.count())),
      arriving_(static_cast<std::size_t>(ranks.count())) {}

Mailbox::~Mailbox() {
  if (!ranks_.is_of_this_process()) {
    if (helper_.joinable()) helper_.detach();  // fork() did not copy it.
    return;
  }
  std::unique_lock lock(mutex_);
  fail_open(HostError(HostError::Kind::kAborted, ranks_.me(), "the group has been destroyed"));
  tell_finished(lock);
  is_closed_ = true;
  changed_.notify_all();
  std::thread helper = std::move(helper_);
  lock.unlock();
  if (helper.joinable()) helper.join();
}

Mailbox::MessagePtr Mailbox::send(const std::byte* data, std::size_t bytes, int to,
                                  std::uint32_t tag, Message::Done done) {
  auto message = std::make_shared<Message>();
  message->data_ = const_cast<std::byte*>(data);
  message->bytes_ = bytes;
  message->peer_ = to;
  message->is_send_ = true;
  message->tag_ = tag;
  message->done_ = std::move(done);
  std::unique_lock lock(mutex_);
  ranks_.check_usable();
  sends_[static_cast<std::size_t>(to)].push_back(message);
  ++under_way_;
  move_to(to);
  call_helper();
  tell_finished(lock);
  return message;
}

Mailbox::MessagePtr Mailbox::receive(std::byte* data, std::size_t bytes, int from,
                                     std::uint32_t tag, Message::Done done) {
  auto message = std::make_shared<Message>();
  message->data_ = data;
  message->bytes_ = bytes;
  message->peer_ = from;
  message->is_for_any_ = from == kAnyRank;
  message->tag_ = tag;
  message->done_ = std::move(done);
  std::unique_lock lock(mutex_);
  ranks_.check_usable();
  ++under_way_;
  receives_.push_back(message);
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
    return (message->is_for_any_ || each.from == from) && each.message->tag == tag;
  });
  if (kept != kept_.end()) {
    const auto arrival = kept->message;
    const int sender = kept->from;
    kept_.erase(kept);
    give(sender, arrival, message);
  }
  call_helper();
  tell_finished(lock);
  return message;
}

void Mailbox::wait(Message& message, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  message.begun_ = Clock::now();
  message.deadline_ = deadline;
  ++waiting_;
  Patience patience(policy_);
  while (!message.is_complete_) {
    drive_once(lock, patience);
    tell_finished(lock);
  }
  --waiting_;
  if (waiting_ == 0) changed_.notify_all();  // The helper.
}

// The mutex is held.
void Mailbox::call_helper() {
  if (under_way_ == 0 || is_closed_) return;
  if (!helper_.joinable()) {
    helper_ = std::thread([this] { help(); });
  } else if (helper_sleeps_) {
    changed_.notify_all();
  }
}

void Mailbox::help() {
  std::unique_lock lock(mutex_);
  int looks = 0;
  while (!is_closed_) {
    if (looks == 0) {
      helper_sleeps_ = true;
      changed_.wait(lock, [&] { return is_closed_ || under_way_ > 0; });
      helper_sleeps_ = false;
      looks = kLooksBeforeSleep;
    }
    changed_.wait_for(lock, kGrace, [&] { return is_closed_; });
    changed_.wait(lock, [&] { return is_closed_ || waiting_ == 0; });
    if (under_way_ == 0) {
      --looks;
      continue;
    }
    looks = kLooksBeforeSleep;
    Patience none({});
    while (under_way_ > 0 && waiting_ == 0 && !is_closed_) {
      drive_once(lock, none);
      tell_finished(lock);
    }
  }
}

void Mailbox::drive_once(std::unique_lock<std::mutex>& lock, Patience& patience) {
  if (move_or_fail()) return patience.reset();
  if (!patience.is_over()) {
    lock.unlock();
    patience.pause();
    return lock.lock();
  }
  auto& bell = ranks_.memory(ranks_.me()).bell.word;
  const std::uint32_t seen = bell.fetch_or(kHasSleeper, std::memory_order_acq_rel) | kHasSleeper;
  // A message that arrived before the bit was set did not wake this thread. Ranks that are gone
  // sent their last messages before.
  const auto gone = ranks_.gone();
  if (move_or_fail()) return;
  try {
    check(gone);
  } catch (const HostError& error) {
    fail_all(error);
    return;
  }
  lock.unlock();
  sleep_on(bell, seen, kLookAround);
  lock.lock();
}

bool Mailbox::move() {
  bool has_moved = false;
  for (int rank = 0; rank < ranks_.count(); ++rank) {
    if (rank == ranks_.me()) continue;
    if (move_to(rank)) has_moved = true;
    if (move_from(rank)) has_moved = true;
  }
  return has_moved;
}

bool Mailbox::move_or_fail() {
  try {
    return move();
  } catch (const HostError& error) {
    fail_all(error);
    return true;
  }
}

bool Mailbox::move_to(int rank) {
  auto& queue = sends_[static_cast<std::size_t>(rank)];
  if (queue.empty()) return false;
  RankMemory& theirs = ranks_.memory(rank);
  Ring& ring = ring_of(theirs, ranks_.me(), sizes_);
  const Place place{ring_data(theirs, ranks_.me(), sizes_), sizes_.ring_bytes};
  std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  bool has_moved = false;
  while (!queue.empty()) {
    const MessagePtr message = queue.front();
    const std::uint64_t used = written - ring.read.load(std::memory_order_acquire);
    std::size_t room = used > sizes_.ring_bytes ? 0 : sizes_.ring_bytes - used;
    const std::uint64_t before = written;
    if (!message->has_header_) {
      if (room < sizeof(Header)) break;
      const Header header{.bytes = message->bytes_, .tag = message->tag_};
      copy_to(place, written, reinterpret_cast<const std::byte*>(&header), sizeof(header));
      message->has_header_ = true;
      written += sizeof(header);
      room -= sizeof(header);
    }
    const std::size_t step = std::min({room, kStepBytes, message->bytes_ - message->moved_});
    copy_to(place, written, message->data_ + message->moved_, step);
    message->moved_ += step;
    written += step;
    if (written == before) break;
    ring.written.store(written, std::memory_order_release);
    ring_bell_of(rank);
    has_moved = true;
    if (message->moved_ < message->bytes_) continue;
    queue.pop_front();
    complete(message);
  }
  return has_moved;
}

bool Mailbox::move_from(int rank) {
  RankMemory& mine = ranks_.memory(ranks_.me());
  Ring& ring = ring_of(mine, rank, sizes_);
  const Place place{ring_data(mine, rank, sizes_), sizes_.ring_bytes};
  auto& arriving = arriving_[static_cast<std::size_t>(rank)];
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  bool has_moved = false;
  for (;;) {
    const std::size_t there = ring.written.load(std::memory_order_acquire) - read;
    if (there > sizes_.ring_bytes) break;  // Nonsense: its sender fails, or this rank times out.
    if (!arriving) {
      if (there < sizeof(Header)) break;
      Header header;
      copy_from(place, read, reinterpret_cast<std::byte*>(&header), sizeof(header));
      read += sizeof(header);
      begin_arrival(rank, header);
    } else {
      const std::size_t step = std::min({there, kStepBytes, arriving->bytes - arriving->moved});
      if (step == 0) break;
      if (!arriving->is_dropped) {
        copy_from(place, read, arriving->destination() + arriving->moved, step);
      }
      arriving->moved += step;
      read += step;
    }
    ring.read.store(read, std::memory_order_release);
    ring_bell_of(rank);
    has_moved = true;
    if (arriving && arriving->moved == arriving->bytes) finish_arrival(rank);
  }
  return has_moved;
}

void Mailbox::begin_arrival(int rank, const Header& header) {
  auto arrival = std::make_shared<Arriving>();
  arrival->tag = header.tag;
  arrival->bytes = header.bytes;
  arriving_[static_cast<std::size_t>(rank)] = arrival;
  const auto found = std::find_if(receives_.begin(), receives_.end(), [&](const MessagePtr& each) {
    return (each->is_for_any_ || each->peer_ == rank) && each->tag_ == header.tag;
  });
  if (found != receives_.end()) {
    give(rank, arrival, MessagePtr(*found));
    return;
  }
  try {
    arrival->kept.resize(arrival->bytes);
  } catch (const std::exception&) {
    throw HostError(HostError::Kind::kFailed, ranks_.me(),
                    text_of("no memory for a message of ", header.bytes, " bytes from rank ",
                            ranks_.name_of(rank), ", which has no receive yet"));
  }
  kept_.push_back({rank, arrival});
}

void Mailbox::finish_arrival(int rank) {
  const auto arrival = std::exchange(arriving_[static_cast<std::size_t>(rank)], nullptr);
  arrival->is_whole = true;
  if (!arrival->receive) return;
  if (!arrival->kept.empty()) {
    std::memcpy(arrival->receive->data_, arrival->kept.data(), arrival->bytes);
  }
  complete(arrival->receive);
}

// Gives a message to a receive that waits. Some of its bytes may be kept.
void Mailbox::give(int rank, const std::shared_ptr<Arriving>& arrival, const MessagePtr& receive) {
  if (arrival->bytes != receive->bytes_) {
    const HostError wrong(
        HostError::Kind::kMismatch, rank,
        text_of("the message from rank ", ranks_.name_of(rank), " with tag ", arrival->tag, " has ",
                arrival->bytes, " bytes, but the tensor that receives it has ", receive->bytes_));
    arrival->is_dropped = true;
    complete(receive, std::make_exception_ptr(wrong));
    return;
  }
  receive->peer_ = rank;
  arrival->receive = receive;
  receives_.remove(receive);
  if (!arrival->is_whole) return;
  if (arrival->bytes != 0) {
    std::memcpy(receive->data_, arrival->kept.data(), arrival->bytes);
  }
  complete(receive);
}

// `message` may be an element of receives_.
void Mailbox::complete(MessagePtr message, const std::exception_ptr& error) {
  if (message->is_complete_) return;
  if (!message->is_send_) receives_.remove(message);
  message->is_complete_ = true;
  --under_way_;
  finished_.push_back({std::move(message), error});
}

void Mailbox::tell_finished(std::unique_lock<std::mutex>& lock) {
  if (finished_.empty()) return;
  const std::vector<Finished> finished = std::exchange(finished_, {});
  // Other threads may wait for these messages.
  if (waiting_ > 1) ring_bell_of(ranks_.me());
  lock.unlock();
  for (const Finished& each : finished) std::exchange(each.message->done_, nullptr)(each.error);
  lock.lock();
}

void Mailbox::check(const std::vector<std::optional<HostError>>& gone) const {
  ranks_.check_usable();
  const auto count_of_gone =
      std::count_if(gone.begin(), gone.end(), [](const auto& error) { return error.has_value(); });
  const bool are_all_gone = count_of_gone + 1 == ranks_.count();
  const auto now = Clock::now();
  const auto check_one = [&](const MessagePtr& message) {
    using Kind = HostError::Kind;
    for (const auto& error : gone) {
      if (!error) continue;
      const bool is_its = message->peer_ == error->rank();
      const bool ends_any = error->kind() != Kind::kLeft || are_all_gone;
      if (is_its || (message->is_for_any_ && ends_any)) throw *error;
    }
    if (now < message->deadline_) return;
    const auto waited = std::chrono::ceil<std::chrono::milliseconds>(now - message->begun_);
    throw HostError(Kind::kTimedOut, message->peer_,
                    text_of("timed out after ", waited.count(), "ms: ", missing(*message)));
  };
  for (const auto& queue : sends_) {
    for (const MessagePtr& each : queue) check_one(each);
  }
  for (const MessagePtr& each : receives_) check_one(each);
  for (const auto& each : arriving_) {
    if (each && each->receive) check_one(each->receive);
  }
}

std::string Mailbox::missing(const Message& message) const {
  if (message.is_for_any_) return text_of("no rank sent a message with tag ", message.tag_);
  return text_of("rank ", ranks_.name_of(message.peer_), " did not ",
                 message.is_send_ ? "receive" : "send", " a message with tag ", message.tag_);
}

void Mailbox::fail_all(const HostError& error) {
  ranks_.fail(error);
  fail_open(error);
  wake_everybody();
}

void Mailbox::fail_open(const HostError& error) {
  const auto exception = std::make_exception_ptr(error);
  for (auto& queue : sends_) {
    for (const MessagePtr& each : queue) complete(each, exception);
    queue.clear();
  }
  while (!receives_.empty()) complete(receives_.front(), exception);
  for (auto& each : arriving_) {
    if (each && each->receive) complete(each->receive, exception);
    each.reset();
  }
}

bool Mailbox::is_own_thread() {
  const std::lock_guard lock(mutex_);
  return helper_.get_id() == std::this_thread::get_id();
}

void Mailbox::ring_bell_of(int rank) const {
  auto& bell = ranks_.memory(rank).bell.word;
  const std::uint32_t old = bell.fetch_add(2, std::memory_order_acq_rel);
  if ((old & kHasSleeper) == 0) return;
  // Several threads may sleep, so only who wakes them says that none does.
  bell.fetch_and(~kHasSleeper, std::memory_order_acq_rel);
  wake_sleepers(bell);
}

void Mailbox::wake_everybody() const {
  for (int rank = 0; rank < ranks_.count(); ++rank) ring_bell_of(rank);
}

}  // namespace distrun::shm
