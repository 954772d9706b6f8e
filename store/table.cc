#include "store/table.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

// The answers to check and to wait (CheckResponseType, WaitResponseType).
constexpr char kReady = 0, kNotReady = 1;
constexpr char kStopWaiting = 0, kWaitCanceled = 1;

template <class Number>
void append_number(std::string& to, Number number) {
  char bytes[sizeof(number)];
  std::memcpy(bytes, &number, sizeof(number));
  to.append(bytes, sizeof(bytes));
}

// As std::stoll reads it, which LibTorch's server uses: blanks and a sign in front, anything
// behind.
std::optional<std::int64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

void append_text(std::string& to, std::string_view text) {
  append_number<std::uint64_t>(to, text.size());
  to.append(text);
}

}  // namespace

const StoreTable::Handler StoreTable::kHandlers[kRequestCount] = {
    &StoreTable::validate,    &StoreTable::set,          &StoreTable::compare_set,
    &StoreTable::get,         &StoreTable::add,          &StoreTable::check,
    &StoreTable::wait,        &StoreTable::get_num_keys, &StoreTable::delete_key,
    &StoreTable::append,      &StoreTable::multi_get,    &StoreTable::multi_set,
    &StoreTable::cancel_wait, &StoreTable::ping,         &StoreTable::queue_push,
    &StoreTable::queue_pop,   &StoreTable::queue_len,    &StoreTable::list_keys,
    &StoreTable::barrier,
};

Result<void> StoreTable::apply(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  return (this->*kHandlers[static_cast<std::size_t>(request.code)])(peer, request, replies);
}

void StoreTable::forget(PeerId peer) {
  const auto found = awaited_.find(peer);
  if (found == awaited_.end()) return;
  for (const std::string& key : found->second.keys) {
    const auto waiters = waiters_.find(key);
    if (waiters == waiters_.end()) continue;  // The key has come.
    std::erase(waiters->second, peer);
    if (waiters->second.empty()) waiters_.erase(waiters);
  }
  awaited_.erase(found);
}

Result<void> StoreTable::validate(PeerId, const StoreRequest&, ReplySink&) { return {}; }

Result<void> StoreTable::set(PeerId, const StoreRequest& request, ReplySink& replies) {
  value_at(request.key()) = request.values[0];
  wake(request.key(), replies);
  return {};
}

Result<void> StoreTable::compare_set(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto expected = request.values[0], wanted = request.values[1];
  const auto found = values_.find(request.key());
  std::string_view answer;
  if (found != values_.end()) {
    if (found->second == expected) found->second = wanted;
    answer = found->second;
  } else if (expected.empty()) {
    value_at(request.key()) = wanted;
    answer = wanted;
  } else {
    answer = expected;
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
  replies.replies_to(peer).push_back(ready ? kReady : kNotReady);
  return {};
}

Result<void> StoreTable::wait(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  forget(peer);
  std::vector<std::string_view> keys = request.keys;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const auto key : keys) {
    if (!is_there(key)) wait_for(peer, key);
  }
  if (!awaited_.contains(peer)) replies.replies_to(peer).push_back(kStopWaiting);
  return {};
}

Result<void> StoreTable::get_num_keys(PeerId peer, const StoreRequest&, ReplySink& replies) {
  append_number<std::int64_t>(replies.replies_to(peer), static_cast<std::int64_t>(values_.size()));
  return {};
}

Result<void> StoreTable::delete_key(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto found = values_.find(request.key());
  const std::int64_t deleted = found != values_.end() ? 1 : 0;
  if (deleted != 0) values_.erase(found);
  append_number(replies.replies_to(peer), deleted);
  return {};
}

Result<void> StoreTable::append(PeerId, const StoreRequest& request, ReplySink& replies) {
  std::string& value = value_at(request.key());
  if (value.size() + request.values[0].size() > limits_.value_bytes_max) {
    return Error{ErrorKind::kProtocol,
                 fmt::format("append to the key '{}' would make its value longer than {} bytes",
                             request.key(), limits_.value_bytes_max)};
  }
  value.append(request.values[0]);
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
    value_at(request.keys[i]) = request.values[i];
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
  queues_[std::string(request.key())].emplace_back(request.values[0]);
  wake_first(request.key(), replies);
  return {};
}

// Answers how many values there were and, where there was one, the oldest.
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
  queue.pop_front();
  if (queue.empty()) queues_.erase(found);
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
  for (const auto& [key, value] : values_) size += sizeof(std::uint64_t) + key.size();
  if (size > limits_.reply_bytes_max) return too_long(request, size);
  std::string& to = replies.replies_to(peer);
  append_number<std::int64_t>(to, static_cast<std::int64_t>(values_.size()));
  for (const auto& [key, value] : values_) append_text(to, key);
  return {};
}

// The peer that completes the count releases all; a late one does not wait.
Result<void> StoreTable::barrier(PeerId peer, const StoreRequest& request, ReplySink& replies) {
  const auto count = increase(request.key(), 1);
  if (!count) return count.error();
  forget(peer);
  if (*count < request.number) {
    wait_for(peer, request.key());
    return {};
  }
  wake(request.key(), replies);
  replies.replies_to(peer).push_back(kStopWaiting);
  return {};
}

Error StoreTable::too_long(const StoreRequest& request, std::size_t size) const {
  return {ErrorKind::kProtocol,
          fmt::format("the answer to {} would be {} bytes long: at most {} are allowed",
                      request.name(), size, limits_.reply_bytes_max)};
}

bool StoreTable::is_there(std::string_view key) const {
  return values_.contains(key) || queues_.contains(key);  // An empty queue is not kept.
}

std::string_view StoreTable::value_of(std::string_view key) const {
  const auto found = values_.find(key);
  return found != values_.end() ? std::string_view(found->second) : std::string_view();
}

std::string& StoreTable::value_at(std::string_view key) {
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : values_[std::string(key)];
}

// Values that are counted are kept as decimal text, as LibTorch's clients read them.
Result<std::int64_t> StoreTable::increase(std::string_view key, std::int64_t by) {
  std::int64_t value = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string& text = found->second;
    const auto number = leading_number(text);
    if (!number) {
      return Error{
          ErrorKind::kProtocol,
          fmt::format("add to the key '{}', whose value does not begin with a number", key)};
    }
    value = *number;
  }
  if (__builtin_add_overflow(value, by, &value)) {
    return Error{ErrorKind::kProtocol, fmt::format("add to the key '{}' overflows", key)};
  }
  value_at(key) = std::to_string(value);
  return value;
}

// `key` is not among those that the peer waits for already.
void StoreTable::wait_for(PeerId peer, std::string_view key) {
  Wait& wait = awaited_[peer];
  ++wait.left;
  wait.keys.emplace_back(key);
  waiters_[std::string(key)].push_back(peer);
}

// The key has come: every peer that waits for it waits for one key less.
void StoreTable::wake(std::string_view key, ReplySink& replies) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const std::vector<PeerId> peers = std::move(found->second);
  waiters_.erase(found);
  for (const PeerId peer : peers) arrived(peer, replies);
}

// A value in a queue is for one peer only: the first for which it was the last thing missing.
void StoreTable::wake_first(std::string_view key, ReplySink& replies) {
  for (auto found = waiters_.find(key); found != waiters_.end(); found = waiters_.find(key)) {
    const PeerId peer = found->second.front();
    found->second.erase(found->second.begin());
    if (found->second.empty()) waiters_.erase(found);
    if (arrived(peer, replies)) return;
  }
}

// `peer` waits for one key less.  Answers it where that was the last one, and says whether it was.
bool StoreTable::arrived(PeerId peer, ReplySink& replies) {
  const auto found = awaited_.find(peer);
  if (--found->second.left > 0) return false;
  awaited_.erase(found);
  replies.replies_to(peer).push_back(kStopWaiting);
  return true;
}

}  // namespace distrun
