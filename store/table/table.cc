#include "store/table/table.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/text/printable.h"
#include "store/protocol/wire.h"

namespace distrun {

namespace {

// For error messages.
std::string shown(std::string_view key) { return printable(key, 100); }

// Reads like std::stoll, as LibTorch's server does: skips blanks and a sign, ignores the rest.
std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// Approximate memory of an item besides its bytes.
constexpr std::size_t kQueueCost = 850;       // Mostly an empty deque.
constexpr std::size_t kQueuedValueCost = 64;  // A string in it.
constexpr std::size_t kWaitCost = 240;        // One peer waits for one key.

// Frees the memory of a nearly empty table.
template <class Table>
void shrink(Table& table) {
  constexpr std::size_t kKeptPlaces = 4096;
  const std::size_t places = table.bucket_count();
  if (places > kKeptPlaces && table.size() < places / 16) table.rehash(table.size() * 2);
}

// An upper bound for the memory that a request adds. wait() computes its own, which depends on
// existing keys.
std::size_t growth_by(const StoreRequest& request) {
  switch (request.code) {
    case RequestCode::kSet:
    case RequestCode::kCompareSet:
    case RequestCode::kAdd:
    case RequestCode::kAppend:  // For new keys; append() checks the others.
    case RequestCode::kMultiSet:
    case RequestCode::kBarrier:
      break;
    case RequestCode::kQueuePush:
      return kQueueCost + kQueuedValueCost + request.key().size() + request.values[0].size();
    default:
      return 0;
  }
  std::size_t growth = 0;
  // A key that peers wait for is stored twice.
  for (const auto key : request.keys) growth += kWaitCost + 2 * key.size();
  for (const auto value : request.values) growth += value.size();
  return growth;
}

}  // namespace

const StoreTable::Handler StoreTable::kHandlers[kRequestCount] = {
    &StoreTable::validate,    &StoreTable::set,          &StoreTable::compare_set,
    &StoreTable::get,         &StoreTable::add,          &StoreTable::check,
    &StoreTable::wait,        &StoreTable::get_num_keys, &StoreTable::delete_key,
    &StoreTable::append,      &StoreTable::multi_get,    &StoreTable::multi_set,
    &StoreTable::cancel_wait, &StoreTable::ping,         &StoreTable::queue_push,
    &StoreTable::queue_pop,   &StoreTable::queue_len,    &StoreTable::list_keys,
    &StoreTable::barrier,     &StoreTable::status,
};

Result<void> StoreTable::apply(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  if (const std::size_t growth = growth_by(request); growth > 0 && !has_room_for(growth)) {
    return full(request);
  }
  return (this->*kHandlers[request_index(request.code)])(peer, request, replies);
}

void StoreTable::forget(PeerId peer) {
  const auto found = awaited_.find(peer);
  if (found == awaited_.end()) return;
  for (const std::string& key : found->second.keys) {
    bytes_ -= kWaitCost + 2 * key.size();
    const auto waiters = waiters_.find(key);
    if (waiters == waiters_.end()) continue;  // The key exists by now.
    std::erase(waiters->second, peer);
    if (waiters->second.empty()) waiters_.erase(waiters);
  }
  awaited_.erase(found);
  shrink(waiters_);
}

std::optional<StoreWait> StoreTable::wait_of(PeerId peer, std::size_t keys_max) const {
  const auto found = awaited_.find(peer);
  if (found == awaited_.end()) return std::nullopt;
  StoreWait wait;
  wait.keys_left = found->second.left;
  constexpr std::size_t kKeysLookedAt = 1024;
  std::size_t looked_at = 0;
  for (const std::string& key : found->second.keys) {
    if (wait.keys.size() == std::min(keys_max, wait.keys_left)) break;
    if (++looked_at > kKeysLookedAt) break;
    const auto waiters = waiters_.find(key);
    if (waiters == waiters_.end()) continue;  // The key exists by now.
    const auto& peers = waiters->second;
    if (std::find(peers.begin(), peers.end(), peer) != peers.end()) wait.keys.push_back(key);
  }
  if (found->second.barrier_of > 0) {
    wait.arrivals_wanted = found->second.barrier_of;
    wait.arrived = leading_number(value_of(found->second.keys.front())).value_or(0);
  }
  return wait;
}

Result<void> StoreTable::validate(PeerId, const StoreRequest&, ReplySink&) { return {}; }

Result<void> StoreTable::set(PeerId, const StoreRequest& request, ReplySink& replies) {
  put(request.key(), request.values[0]);
  wake(request.key(), replies);
  return {};
}

Result<void> StoreTable::compare_set(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto expected = request.values[0], wanted = request.values[1];
  const auto found = entries_.find(request.key());
  std::string_view answer = expected;
  if (found != entries_.end() ? found->value() == expected : expected.empty()) {
    put(request.key(), wanted);
    answer = wanted;
  } else if (found != entries_.end()) {
    answer = found->value();
  }
  append_text(replies.replies_to(peer), answer);
  wake(request.key(), replies);
  return {};
}

Result<void> StoreTable::get(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  append_text(replies.replies_to(peer), value_of(request.key()));
  return {};
}

Result<void> StoreTable::add(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto sum = increase(request.key(), request.number);
  if (!sum) return sum.error();
  append_number(replies.replies_to(peer), *sum);
  wake(request.key(), replies);
  return {};
}

Result<void> StoreTable::check(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const bool ready = std::all_of(request.keys.begin(), request.keys.end(),
                                 [this](std::string_view key) { return is_there(key); });
  replies.replies_to(peer).push_back(ready ? kAllThere : kNotAllThere);
  return {};
}

Result<void> StoreTable::wait(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  forget(peer);
  std::vector<std::string_view> keys = request.keys;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::erase_if(keys, [this](std::string_view key) { return is_there(key); });
  std::size_t growth = 0;
  for (const auto key : keys) growth += kWaitCost + 2 * key.size();
  if (growth > 0 && !has_room_for(growth)) return full(request);
  for (const auto key : keys) wait_for(peer, key);
  if (!awaited_.contains(peer)) replies.replies_to(peer).push_back(kStopWaiting);
  return {};
}

Result<void> StoreTable::get_num_keys(PeerId peer, const StoreRequest&, ReplySink& replies) {
  append_number<std::int64_t>(replies.replies_to(peer), static_cast<std::int64_t>(entries_.size()));
  return {};
}

Result<void> StoreTable::delete_key(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto found = entries_.find(request.key());
  const std::int64_t deleted = found != entries_.end() ? 1 : 0;
  if (deleted != 0) {
    bytes_ -= found->bytes();
    entries_.erase(found);
    shrink(entries_);
  }
  append_number(replies.replies_to(peer), deleted);
  return {};
}

Result<void> StoreTable::append(PeerId, const StoreRequest& request, ReplySink& replies) {
  const auto more = request.values[0];
  const auto found = entries_.find(request.key());
  if (found == entries_.end()) {
    put(request.key(), more);
  } else {
    if (found->value().size() + more.size() > limits_.value_bytes_max) {
      return Error{ErrorKind::kProtocol,
                   fmt::format("append to the key '{}' would make its value longer than {} bytes",
                               shown(request.key()), limits_.value_bytes_max)};
    }
    const std::size_t growth = found->growth_by(more);
    if (!has_room_for(growth)) return full(request);
    found->append(more);
    ++changes_;
    bytes_ += growth;
  }
  wake(request.key(), replies);
  return {};
}

Result<void> StoreTable::multi_get(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  std::size_t size = 0;
  for (const auto key : request.keys) size += sizeof(std::uint64_t) + value_of(key).size();
  if (size > limits_.reply_bytes_max) return too_long(request, size);
  std::string& to = replies.replies_to(peer);
  for (const auto key : request.keys) append_text(to, value_of(key));
  return {};
}

Result<void> StoreTable::multi_set(PeerId, const StoreRequest& request, ReplySink& replies) {
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    put(request.keys[i], request.values[i]);
    wake(request.keys[i], replies);
  }
  return {};
}

Result<void> StoreTable::cancel_wait(PeerId peer, const StoreRequest&, ReplySink& replies) {
  forget(peer);
  replies.replies_to(peer).push_back(kWaitCanceled);
  return {};
}

Result<void> StoreTable::ping(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  append_number(replies.replies_to(peer), static_cast<std::uint32_t>(request.number));
  return {};
}

Result<void> StoreTable::queue_push(PeerId, const StoreRequest& request, ReplySink& replies) {
  const auto [queue, is_new] = queues_.try_emplace(std::string(request.key()));
  if (is_new) bytes_ += kQueueCost + request.key().size();
  queue->second.emplace_back(request.values[0]);
  ++changes_;
  bytes_ += kQueuedValueCost + request.values[0].size();
  wake_first(request.key(), replies);
  return {};
}

// Answers the number of values and, if any, the oldest.
Result<void> StoreTable::queue_pop(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  std::string& to = replies.replies_to(peer);
  const auto found = queues_.find(request.key());
  if (found == queues_.end()) {
    append_number<std::int64_t>(to, 0);
    return {};
  }
  auto& queue = found->second;
  append_number<std::int64_t>(to, static_cast<std::int64_t>(queue.size()));
  append_text(to, queue.front());
  bytes_ -= kQueuedValueCost + queue.front().size();
  queue.pop_front();
  if (queue.empty()) {
    bytes_ -= kQueueCost + request.key().size();
    queues_.erase(found);
    shrink(queues_);
  }
  return {};
}

Result<void> StoreTable::queue_len(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto found = queues_.find(request.key());
  const std::size_t size = found != queues_.end() ? found->second.size() : 0;
  append_number<std::int64_t>(replies.replies_to(peer), static_cast<std::int64_t>(size));
  return {};
}

Result<void> StoreTable::list_keys(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  std::size_t size = sizeof(std::int64_t);
  for (const auto& entry : entries_) size += sizeof(std::uint64_t) + entry.key().size();
  if (size > limits_.reply_bytes_max) return too_long(request, size);
  std::string& to = replies.replies_to(peer);
  append_number<std::int64_t>(to, static_cast<std::int64_t>(entries_.size()));
  for (const auto& entry : entries_) append_text(to, entry.key());
  return {};
}

// The last peer releases all; a late one does not wait.
Result<void> StoreTable::barrier(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto count = increase(request.key(), 1);
  if (!count) return count.error();
  forget(peer);
  if (*count < request.number) {
    wait_for(peer, request.key());
    awaited_.at(peer).barrier_of = request.number;
    return {};
  }
  wake(request.key(), replies);
  replies.replies_to(peer).push_back(kStopWaiting);
  return {};
}

Result<void> StoreTable::status(PeerId, const StoreRequest&, ReplySink&) {
  return Error{ErrorKind::kProtocol, "status, which this server does not answer"};
}

Error StoreTable::too_long(const StoreRequest& request, std::size_t size) const {
  return {ErrorKind::kProtocol,
          fmt::format("the answer to {} would be {} bytes long: at most {} are allowed",
                      request.name(), size, limits_.reply_bytes_max)};
}

Error StoreTable::full(const StoreRequest& request) const {
  return {ErrorKind::kProtocol,
          fmt::format("{}, and the store is full: {} of {} bytes are taken", request.name(),
                      bytes_ + taken_elsewhere_, limits_.memory_bytes_max)};
}

bool StoreTable::has_room_for(std::size_t bytes) const {
  return bytes_ + taken_elsewhere_ + bytes <= limits_.memory_bytes_max;
}

bool StoreTable::is_there(std::string_view key) const {
  return entries_.contains(key) || queues_.contains(key);  // Empty queues are erased.
}

std::string_view StoreTable::value_of(std::string_view key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() ? found->value() : std::string_view();
}

void StoreTable::put(std::string_view key, std::string_view value) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->value() != value) ++changes_;
  if (found == entries_.end()) {
    bytes_ += entries_.emplace(key, value).first->bytes();
    return;
  }
  bytes_ -= found->bytes();
  found->set_value(value);
  bytes_ += found->bytes();
}

// Counters are stored as decimal text, as LibTorch's clients expect.
Result<std::int64_t> StoreTable::increase(std::string_view key, std::int64_t by) {
  std::int64_t value = 0;
  if (const auto found = entries_.find(key); found != entries_.end()) {
    const auto number = leading_number(found->value());
    if (!number) {
      return Error{
          ErrorKind::kProtocol,
          fmt::format("add to the key '{}', whose value does not begin with a number", shown(key))};
    }
    value = *number;
  }
  if (__builtin_add_overflow(value, by, &value)) {
    return Error{ErrorKind::kProtocol, fmt::format("add to the key '{}' overflows", shown(key))};
  }
  put(key, fmt::format_int(value).c_str());
  return value;
}

// Requires that the peer does not wait for `key` yet.
void StoreTable::wait_for(PeerId peer, std::string_view key) {
  Wait& wait = awaited_[peer];
  ++wait.left;
  wait.keys.emplace_back(key);
  waiters_[std::string(key)].push_back(peer);
  bytes_ += kWaitCost + 2 * key.size();
}

// `key` exists now, so each of its peers waits for one key less.
void StoreTable::wake(std::string_view key, ReplySink& replies) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const std::vector<PeerId> peers = std::move(found->second);
  waiters_.erase(found);
  shrink(waiters_);
  for (const PeerId peer : peers) arrived(peer, replies);
}

// A pushed value wakes the first peer that waits for nothing else.
void StoreTable::wake_first(std::string_view key, ReplySink& replies) {
  for (auto found = waiters_.find(key); found != waiters_.end(); found = waiters_.find(key)) {
    const PeerId peer = found->second.front();
    found->second.erase(found->second.begin());
    if (found->second.empty()) waiters_.erase(found);
    if (arrived(peer, replies)) return;
  }
}

// `peer` waits for one key less. If it was the last, answers the peer and returns true.
bool StoreTable::arrived(PeerId peer, ReplySink& replies) {
  const auto found = awaited_.find(peer);
  if (--found->second.left > 0) return false;
  for (const std::string& key : found->second.keys) bytes_ -= kWaitCost + 2 * key.size();
  awaited_.erase(found);
  replies.replies_to(peer).push_back(kStopWaiting);
  return true;
}

}  // namespace distrun
