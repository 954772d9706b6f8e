#include "backends/fake/wire_traffic.h"

#include <algorithm>

namespace distrun::internal {

WireBytes WireModel::all_reduce(std::int64_t bytes) const {
  const std::int64_t half = bytes - bytes / size_;  // (n - 1) / n, rounded up.
  return {2 * half, 2 * half};
}

WireBytes WireModel::all_gather(std::int64_t input) const {
  const std::int64_t others = (size_ - 1) * input;
  return {others, others};
}

WireBytes WireModel::reduce_scatter(std::int64_t output) const {
  const std::int64_t others = (size_ - 1) * output;
  return {others, others};
}

WireBytes WireModel::broadcast(std::int64_t bytes, int root) const {
  const std::int64_t steps = steps_from(root);
  return {.sent = steps == size_ - 1 ? 0 : bytes, .received = steps == 0 ? 0 : bytes};
}

WireBytes WireModel::reduce(std::int64_t bytes, int root) const {
  const std::int64_t steps = steps_from(root);
  const bool is_alone = size_ == 1;
  return {.sent = steps == 0 ? 0 : bytes, .received = steps == 1 || is_alone ? 0 : bytes};
}

WireBytes WireModel::gather(std::int64_t bytes_of_each, int root) const {
  if (rank_ != root) return {.sent = bytes_of_each};
  return {.received = (size_ - 1) * bytes_of_each};
}

WireBytes WireModel::scatter(std::int64_t bytes_of_each, int root) const {
  const WireBytes back = gather(bytes_of_each, root);
  return {.sent = back.received, .received = back.sent};
}

void WireCount::add(const char* operation, std::int64_t payload, const WireBytes& wire) {
  const std::lock_guard lock(mutex_);
  add_to(counts_, {.operation = operation,
                   .calls = 1,
                   .payload = payload,
                   .sent = wire.sent,
                   .received = wire.received});
}

void WireCount::reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
}

std::vector<WireTraffic> WireCount::list() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void add_to(std::vector<WireTraffic>& counts, const WireTraffic& more) {
  const auto same = std::find_if(counts.begin(), counts.end(), [&](const WireTraffic& one) {
    return one.operation == more.operation;
  });
  if (same == counts.end()) {
    counts.push_back(more);
    return;
  }
  same->calls += more.calls;
  same->payload += more.payload;
  same->sent += more.sent;
  same->received += more.received;
}

}  // namespace distrun::internal
