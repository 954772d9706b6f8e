#include "backends/hosts/between_hosts.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "backends/group/answer_within.h"
#include "backends/group/libtorch_versions.h"
#include "backends/shm/host/host_error.h"
#include "common/deadline.h"

namespace distrun::hosts {

namespace {

using internal::answer_within;
using shm::Element;
using shm::HostError;
using shm::Reducing;
using shm::Reduction;
using Tensors = std::vector<at::Tensor>;

// How often a rank that waits asks the store, and how long the store may take.
constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr std::chrono::milliseconds kAnswerTime{200};
// How often a leader that waits for Gloo looks at its host.
constexpr std::chrono::milliseconds kLookAround{100};
// How long Gloo may go on with the tensors of a call after its connections are closed.
constexpr std::chrono::seconds kClosingTime{2};

// The dtype by which Gloo reduces such elements, if it does. Half-precision numbers come as floats
// (widened.h), except for MIN and MAX, which Gloo does not do here.
std::optional<at::ScalarType> type_in_gloo(Element element) {
  switch (element) {
    case Element::kUint8:
      return at::kByte;
    case Element::kInt8:
      return at::kChar;
    case Element::kInt32:
      return at::kInt;
    case Element::kInt64:
      return at::kLong;
    case Element::kFloat32:
      return at::kFloat;
    case Element::kFloat64:
      return at::kDouble;
    default:
      return std::nullopt;
  }
}

std::optional<c10d::ReduceOp> operation_in_gloo(const Reducing& how) {
  switch (how.reduction) {
    case Reduction::kSum:
    case Reduction::kAverage:
      return c10d::ReduceOp(c10d::ReduceOp::SUM);
    case Reduction::kProduct:
      return c10d::ReduceOp(c10d::ReduceOp::PRODUCT);
    case Reduction::kMin:
    case Reduction::kMax:
      // Gloo loses NaN.
      if (how.element == Element::kFloat32 || how.element == Element::kFloat64) return std::nullopt;
      return c10d::ReduceOp(how.reduction == Reduction::kMin ? c10d::ReduceOp::MIN
                                                             : c10d::ReduceOp::MAX);
    default:
      return std::nullopt;
  }
}

at::Tensor bytes_at(std::byte* data, std::size_t bytes) {
  return at::from_blob(data, {static_cast<std::int64_t>(bytes)}, at::kByte);
}

// Gloo does not write to its inputs.
at::Tensor bytes_at(const std::byte* data, std::size_t bytes) {
  return bytes_at(const_cast<std::byte*>(data), bytes);  // NOLINT(*-const-cast)
}

std::chrono::milliseconds until(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(left),
                    std::chrono::milliseconds(1),
                    std::chrono::milliseconds(std::chrono::hours(24 * 365)));
}

// Whether a work of Gloo has ended.
class Ending {
 public:
  explicit Ending(c10d::Work& work) : state_(std::make_shared<State>()) {
    work.getFuture()->addCallback([state = state_](c10::ivalue::Future&) {
      const std::lock_guard lock(state->mutex);
      state->has_come = true;
      state->changed.notify_all();
    });
  }
  bool comes_within(std::chrono::milliseconds time) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, time, [&] { return state_->has_come; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_come = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace

std::string text_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  return c10_error == nullptr ? error.what() : c10_error->what_without_backtrace();
}

template <class Act>
void BetweenHosts::run(c10d::Backend& backend, const std::vector<int>& names, const Limit& limit,
                       const Act& act) {
  std::optional<Ending> ending;
  try {
    const auto work = act(backend);
    ending.emplace(*work);
    while (!ending->comes_within(kLookAround)) {
      limit.watch.check_failed();
      look_for_news();
    }
    work->wait();
  } catch (const HostError&) {
    close_connections();
    if (ending) ending->comes_within(kClosingTime);
    throw;
  } catch (const std::exception& error) {
    throw_reason_or(error, backend, names);
  }
}

void BetweenHosts::all_reduce(std::byte* data, std::size_t count, const Reducing& how, int ranks,
                              const Limit& limit) {
  const auto type = type_in_gloo(how.element);
  const auto operation = operation_in_gloo(how);
  if (type && operation) {
    run_on_leaders(limit, [&](c10d::Backend& leaders) {
      Tensors tensors = {at::from_blob(data, {static_cast<std::int64_t>(count)}, *type)};
      return leaders.allreduce(tensors, {.reduceOp = *operation, .timeout = until(limit.deadline)});
    });
  } else {
    const auto hosts = static_cast<std::size_t>(its_.leaders->getSize());
    const std::size_t bytes = count * shm::bytes_of(how.element);
    const auto all = std::make_unique_for_overwrite<std::byte[]>(hosts * bytes);
    all_gather(data, bytes, all.get(), limit);
    std::vector<const std::byte*> sources;
    sources.reserve(hosts);
    for (std::size_t host = 0; host < hosts; ++host) sources.push_back(all.get() + host * bytes);
    const bool is_average = how.reduction == Reduction::kAverage;
    shm::reduce({how.element, is_average ? Reduction::kSum : how.reduction}, sources.data(),
                static_cast<int>(hosts), count, data);
  }
  if (how.reduction == Reduction::kAverage) shm::divide(how.element, ranks, count, data);
}

void BetweenHosts::broadcast(std::byte* data, std::size_t bytes, int host, const Limit& limit) {
  run_on_leaders(limit, [&](c10d::Backend& leaders) {
    Tensors tensors = {bytes_at(data, bytes)};
    return leaders.broadcast(tensors, {.rootRank = host, .timeout = until(limit.deadline)});
  });
}

void BetweenHosts::all_gather(std::byte* mine, std::size_t bytes, std::byte* all,
                              const Limit& limit) {
  run_on_leaders(limit, [&](c10d::Backend& leaders) {
    at::Tensor input = bytes_at(mine, bytes);
    at::Tensor output = bytes_at(all, bytes * static_cast<std::size_t>(leaders.getSize()));
    return leaders.DISTRUN_ALL_GATHER_SINGLE(output, input, {.timeout = until(limit.deadline)});
  });
}

void BetweenHosts::barrier(const Limit& limit) {
  run_on_leaders(limit, [&](c10d::Backend& leaders) {
    return leaders.barrier({.timeout = until(limit.deadline)});
  });
}

void BetweenHosts::gather(const std::byte* mine, shm::Collectives::Outputs outputs,
                          std::size_t bytes, int root, const Limit& limit) {
  run_on_all(limit, [&](c10d::Backend& all) {
    Tensors inputs = {bytes_at(mine, bytes)};
    std::vector<Tensors> lists;
    if (all.getRank() == root) {
      lists.emplace_back();
      for (std::byte* each : outputs) lists[0].push_back(bytes_at(each, bytes));
    }
    return all.gather(lists, inputs, {.rootRank = root, .timeout = until(limit.deadline)});
  });
}

void BetweenHosts::scatter(shm::Collectives::Inputs inputs, std::byte* mine, std::size_t bytes,
                           int root, const Limit& limit) {
  run_on_all(limit, [&](c10d::Backend& all) {
    Tensors outputs = {bytes_at(mine, bytes)};
    std::vector<Tensors> lists;
    if (all.getRank() == root) {
      lists.emplace_back();
      for (const std::byte* each : inputs) lists[0].push_back(bytes_at(each, bytes));
    }
    return all.scatter(outputs, lists, {.rootRank = root, .timeout = until(limit.deadline)});
  });
}

void BetweenHosts::all_to_all(shm::Collectives::InputParts inputs,
                              shm::Collectives::OutputParts outputs, const Limit& limit) {
  // Gloo requires parts of one size unless they follow each other.
  std::vector<std::int64_t> sizes_sent, sizes_received;
  for (const auto& each : inputs) sizes_sent.push_back(static_cast<std::int64_t>(each.bytes));
  for (const auto& each : outputs) sizes_received.push_back(static_cast<std::int64_t>(each.bytes));
  const auto buffer = [](const std::vector<std::int64_t>& sizes) {
    return at::empty({std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})}, at::kByte);
  };
  at::Tensor sent = buffer(sizes_sent), received = buffer(sizes_received);
  auto* next = static_cast<std::byte*>(sent.data_ptr());
  for (const auto& each : inputs) next = std::copy_n(each.data, each.bytes, next);
  run_on_all(limit, [&](c10d::Backend& all) {
    return all.DISTRUN_ALL_TO_ALL_SINGLE(received, sent, sizes_received, sizes_sent,
                                         {.timeout = until(limit.deadline)});
  });
  const auto* from = static_cast<const std::byte*>(received.const_data_ptr());
  for (const auto& each : outputs) {
    std::copy_n(from, each.bytes, each.data);
    from += each.bytes;
  }
}

void BetweenHosts::monitored_barrier(std::chrono::milliseconds timeout, bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.timeout = timeout;
  try {
    its_.all->monitoredBarrier(options, wait_all_ranks);
  } catch (const std::exception& error) {
    // Only rank 0 knows who did not come.
    if (its_.all->getRank() == 0) {
      throw HostError(HostError::Kind::kFailed, -1, text_of(error));
    }
    throw_reason_or(error, *its_.all, its_.names);
  }
}

void BetweenHosts::publish_failure(const std::string& reason) {
  if (has_published_.exchange(true)) return;
  // Without an answer, the other hosts learn only that a connection was lost.
  answer_within(kReasonTime, [store = its_.store, key = its_.failure_key, reason] {
    store->compareSet(key, {}, std::vector<std::uint8_t>(reason.begin(), reason.end()));
    return reason;
  });
  close_connections();
}

void BetweenHosts::abort() {
  is_aborted_ = true;
  const auto me = static_cast<std::size_t>(its_.all->getRank());
  publish_failure("rank " + std::to_string(its_.names[me]) + " has left the group");
  close_connections();
}

void BetweenHosts::close_connections() {
  if (its_.leaders) its_.connections.close(*its_.leaders);
  its_.connections.close(*its_.all);
}

std::string BetweenHosts::ask_for_news(std::chrono::milliseconds time) {
  if (is_store_silent_) return {};
  const auto ask = [store = its_.store, key = its_.failure_key, time] {
    const auto deadline = deadline_after(time);
    // A wait of the store that times out logs a warning.
    while (!store->check({key})) {
      if (std::chrono::steady_clock::now() >= deadline) return std::string();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const std::vector<std::uint8_t> reason = store->get(key);
    return std::string(reason.begin(), reason.end());
  };
  const auto reason = answer_within(time + kAnswerTime, ask);
  is_store_silent_ = !reason;
  return reason.value_or("");
}

void BetweenHosts::check_aborted() const {
  if (is_aborted_) throw HostError(HostError::Kind::kAborted, -1, "the group has been aborted");
}

void BetweenHosts::look_for_news() {
  check_aborted();
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kBetweenLooks;
  // At the first sight, this call may be about to complete: a rank may have left after it.
  if (!news_.empty()) throw HostError(HostError::Kind::kFailed, -1, news_);
  news_ = ask_for_news(std::chrono::milliseconds(0));
}

void BetweenHosts::wait_for_news() {
  check_aborted();
  if (news_.empty()) news_ = ask_for_news(kReasonTime);
  if (!news_.empty()) throw HostError(HostError::Kind::kFailed, -1, news_);
}

void BetweenHosts::throw_reason_or(const std::exception& error, c10d::Backend& backend,
                                   const std::vector<int>& names) {
  wait_for_news();
  const std::string text = text_of(error);
  const auto peer = its_.connections.lost_peer(backend, error.what());
  if (!peer) throw HostError(HostError::Kind::kFailed, -1, text);
  const int name = names[static_cast<std::size_t>(*peer)];
  throw HostError(HostError::Kind::kEnded, -1,
                  "the connection to rank " + std::to_string(name) + kWasLost + text);
}

void NewsWatch::check(int rank) {
  try {
    ForwardingWatch::check(rank);
  } catch (const HostError& error) {
    // A leader that did not come may wait for another host. Other ranks are at fault themselves.
    const bool waits_for_leader = rank == 0 && !between_.is_leader();
    if (error.kind() == HostError::Kind::kTimedOut && waits_for_leader) between_.wait_for_news();
    throw;
  }
  between_.look_for_news();
}

}  // namespace distrun::hosts
