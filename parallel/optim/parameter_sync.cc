#include "parallel/optim/parameter_sync.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/collectives.h"
#include "parallel/ddp/flat_parts.h"

namespace distrun::internal {

namespace {

// A copy costs less than a collective.
constexpr std::size_t kSmallBytes = std::size_t{256} * 1024;

bool is_small(const at::Tensor& tensor) { return tensor.nbytes() < kSmallBytes; }

// Lists of tensors of one dtype and device, in the order of their first tensors.
std::vector<std::vector<at::Tensor>> by_kind(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<at::Tensor>> kinds;
  for (const at::Tensor& one : tensors) {
    auto place = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) {
      return kind.front().scalar_type() == one.scalar_type() &&
             kind.front().device() == one.device();
    });
    if (place == kinds.end()) place = kinds.emplace(place);
    place->push_back(one);
  }
  return kinds;
}

std::int64_t elements_in(const std::vector<at::Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const at::Tensor& one : tensors) sum += one.numel();
  return sum;
}

at::Tensor flat_like(const std::vector<at::Tensor>& tensors) {
  return at::empty({elements_in(tensors)}, tensors.front().options().requires_grad(false));
}

// Hooks and the end of backward() can have different streams, and the memory is freed soon.
void keep_for_current_stream(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  const c10::impl::VirtualGuardImpl streams(at::kCUDA);
  tensor.record_stream(streams.getStream(tensor.device()));
}

}  // namespace

Work ParameterSync::send(const at::Tensor& tensor, int rank) const {
  return broadcast(tensor, GroupRank(rank), {.group = group_, .async_op = true});
}

bool ParameterSync::has_buckets_of(const std::vector<Bucket>& buckets) const {
  if (buckets.size() != buckets_.size()) return false;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::vector<at::Tensor>& parameters = buckets[i].parameters;
    if (parameters.size() != buckets_[i].parameters.size()) return false;
    for (std::size_t j = 0; j < parameters.size(); ++j) {
      if (!parameters[j].is_same(buckets_[i].parameters[j])) return false;
      if (!parameters[j].storage().is_alias_of(buckets_[i].data.storage())) return false;
    }
  }
  return true;
}

void ParameterSync::prepare(const Shares& shares) {
  if (!as_bucket_view_) return;
  std::vector<Bucket> buckets;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    for (auto& kind : by_kind(shares[rank])) {
      buckets.push_back({static_cast<int>(rank), std::move(kind), {}});
    }
  }
  if (has_buckets_of(buckets)) return;
  const at::NoGradGuard no_grad;
  // A frozen parameter must not keep the memory of its old bucket.
  for (const Bucket& old : buckets_) {
    for (const at::Tensor& one : old.parameters) {
      if (one.storage().is_alias_of(old.data.storage())) one.set_data(one.detach().clone());
    }
  }
  for (Bucket& bucket : buckets) {
    bucket.data = flat_like(bucket.parameters);
    const std::vector<at::Tensor> parts = parts_like(bucket.data, bucket.parameters);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor& one = bucket.parameters[i];
      parts[i].copy_(one.detach());
      one.set_data(parts[i]);
    }
  }
  buckets_ = std::move(buckets);
}

void ParameterSync::send_share(int rank, const std::vector<at::Tensor>& share,
                               Sending& sending) const {
  std::vector<at::Tensor> small;
  for (const at::Tensor& one : share) {
    const at::Tensor values = one.detach();
    if (is_small(values)) {
      small.push_back(values);
    } else {
      sending.parts_.push_back({send(values, rank), values, {}});
    }
  }
  for (auto& kind : by_kind(small)) {
    if (elements_in(kind) == 0) continue;
    if (rank != group_->getRank()) {
      const at::Tensor received = flat_like(kind);
      sending.parts_.push_back({send(received, rank), received, std::move(kind)});
      continue;
    }
    for (at::Tensor& one : kind) one = one.reshape({-1});
    const at::Tensor sent = at::cat(kind);
    sending.parts_.push_back({send(sent, rank), sent, {}});
  }
}

ParameterSync::Sending ParameterSync::start(const Shares& shares) {
  const at::NoGradGuard no_grad;
  prepare(shares);
  if (!as_bucket_view_) return start_in_place(shares);
  Sending sending;
  if (shares.size() == 1) return sending;
  for (const Bucket& one : buckets_) {
    if (one.data.numel() == 0) continue;
    sending.parts_.push_back({send(one.data, one.rank), one.data, {}});
  }
  return sending;
}

ParameterSync::Sending ParameterSync::start_in_place(const Shares& some) const {
  const at::NoGradGuard no_grad;
  Sending sending;
  if (some.size() == 1) return sending;
  for (std::size_t rank = 0; rank < some.size(); ++rank) {
    send_share(static_cast<int>(rank), some[rank], sending);
  }
  return sending;
}

void ParameterSync::Sending::finish() {
  const at::NoGradGuard no_grad;
  for (const Part& one : parts_) {
    one.work.wait();
    keep_for_current_stream(one.data);
    std::int64_t offset = 0;
    for (const at::Tensor& parameter : one.to) {
      parameter.copy_(one.data.narrow(0, offset, parameter.numel()).view(parameter.sizes()));
      offset += parameter.numel();
    }
  }
  parts_.clear();
}

}  // namespace distrun::internal
