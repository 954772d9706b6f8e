// DistributedSampler divides a data set among the ranks.
//
//     DistributedSampler sampler(dataset.size().value());
//     auto loader = torch::data::make_data_loader(std::move(dataset), sampler, /*batch_size=*/32);
//     for (int epoch = 0; epoch < 10; ++epoch) {
//       sampler.set_epoch(epoch);                       // Another order in each epoch.
//       for (auto& batch : *loader) train(batch);
//     }
//
// For the same seed and epoch, the order is that of torch.utils.data.DistributedSampler, so C++ and
// Python ranks can share a data set.  (torch::data::samplers::DistributedRandomSampler has another
// order.)  Copies of a DistributedSampler share its state, because a data loader copies its
// sampler.
//
// If the number of ranks does not divide the size, some samples are used twice, so that each rank
// has the same number.  With `drop_last`, the last samples are left out instead.
//
// Thread safety: one thread at a time.
// Cost: a permutation of all indices in each epoch.
// PyTorch source: torch/utils/data/distributed.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/data/samplers/base.h>

namespace distrun {

// Options of DistributedSampler.
struct DistributedSamplerOptions {
  // The number of ranks, and this rank.  If they are not set, those of the default group are used.
  std::optional<int> num_replicas = std::nullopt;
  std::optional<int> rank = std::nullopt;
  // If false, the samples are in the order of the data set.
  bool shuffle = true;
  // Must be the same on all ranks.
  std::uint64_t seed = 0;
  // Whether samples are left out, so that the number of ranks divides the rest.
  bool drop_last = false;
};

class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // A sampler of a data set with `size` samples.
  //
  // Throws: c10::ValueError if the rank is not in 0 … num_replicas - 1.
  // Also throws c10::Error if an option is not set and init_process_group() has not been called.
  explicit DistributedSampler(std::size_t size, const DistributedSamplerOptions& options = {});

  // Sets the epoch, which together with the seed determines the order.  Takes effect at the next
  // reset(), which a data loader calls at the start of an epoch.
  void set_epoch(std::int64_t epoch);

  // Returns the indices of this rank in the current epoch.
  std::vector<std::size_t> indices() const;
  // Returns the number of indices of each rank.
  std::size_t size() const;

  // Begins an epoch.  With `new_size`, the data set has this size from now on.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  // Returns the next indices of this rank, at most `batch_size`; std::nullopt at the end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  // Saves the epoch and the position in it.
  void save(torch::serialize::OutputArchive& archive) const override;
  // Continues at the saved position in the saved epoch.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct State {
    std::size_t dataset_size = 0;
    std::int64_t epoch = 0;
    std::vector<std::size_t> indices;
    std::size_t position = 0;
  };

  DistributedSamplerOptions options_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace distrun
