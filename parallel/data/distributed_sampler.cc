#include "distrun/distributed_sampler.h"

#include <algorithm>
#include <numeric>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/serialize/archive.h>

#include "distrun/process_group.h"

namespace distrun {

namespace {

std::vector<std::size_t> ordered(std::size_t size, const DistributedSamplerOptions& options,
                                 std::int64_t epoch) {
  std::vector<std::size_t> all(size);
  if (!options.shuffle) {
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
  }
  const auto generator =
      at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(epoch));
  const at::Tensor order = at::randperm(static_cast<std::int64_t>(size), generator, at::kLong);
  const auto* const data = order.const_data_ptr<std::int64_t>();
  std::transform(data, data + size, all.begin(),
                 [](std::int64_t index) { return static_cast<std::size_t>(index); });
  return all;
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t size, const DistributedSamplerOptions& options)
    : options_(options) {
  if (!options_.num_replicas) options_.num_replicas = default_group().getSize();
  if (!options_.rank) options_.rank = default_group().getRank();
  TORCH_CHECK_VALUE(0 <= *options_.rank && *options_.rank < *options_.num_replicas,
                    "DistributedSampler: rank ", *options_.rank, " is not in 0 to ",
                    *options_.num_replicas - 1);
  state_->dataset_size = size;
  DistributedSampler::reset();
}

void DistributedSampler::set_epoch(std::int64_t epoch) { state_->epoch = epoch; }

std::size_t DistributedSampler::size() const {
  const auto ranks = static_cast<std::size_t>(*options_.num_replicas);
  const std::size_t all = state_->dataset_size;
  return options_.drop_last ? all / ranks : (all + ranks - 1) / ranks;
}

std::vector<std::size_t> DistributedSampler::indices() const {
  const std::vector<std::size_t> all = ordered(state_->dataset_size, options_, state_->epoch);
  const auto ranks = static_cast<std::size_t>(*options_.num_replicas);
  std::vector<std::size_t> own(size());
  std::size_t next = static_cast<std::size_t>(*options_.rank);
  for (std::size_t& index : own) {
    index = all[next % all.size()];  // After the last one, it starts again.
    next += ranks;
  }
  return own;
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  state_->dataset_size = new_size.value_or(state_->dataset_size);
  state_->indices = indices();
  state_->position = 0;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t left = state_->indices.size() - state_->position;
  if (left == 0) return std::nullopt;
  const auto begin = state_->indices.begin() + static_cast<std::ptrdiff_t>(state_->position);
  const std::size_t count = std::min(batch_size, left);
  state_->position += count;
  return std::vector<std::size_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", at::tensor(state_->epoch, at::kLong), /*is_buffer=*/true);
  archive.write("position", at::tensor(static_cast<std::int64_t>(state_->position), at::kLong),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  at::Tensor epoch, position;
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("position", position, /*is_buffer=*/true);
  state_->epoch = epoch.item<std::int64_t>();
  reset();
  state_->position =
      std::min(static_cast<std::size_t>(position.item<std::int64_t>()), state_->indices.size());
}

}  // namespace distrun
