// FsdpModule is the part of FullyShardedDataParallel that does not depend on the class of your
// module (fully_sharded_data_parallel.h).
//
//     fsdp.clip_grad_norm_(1.0);
//     const FsdpState state = fsdp.full_state_dict();       // On every rank.
//     if (get_rank() == 0) save(state);
//
// The functions of this header include all units within the unit that you call them on.  Call them
// on every rank of the group, in the same order.
//
// Throws: the exceptions of collectives.h.
// Thread safety: one thread at a time.
// PyTorch source: torch/distributed/fsdp/_fully_shard/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/ordered_dict.h>

#include "distrun/fsdp_options.h"

namespace distrun {

namespace internal {

class FsdpUnit;
class FsdpForwardCall;
struct FsdpTree;

}  // namespace internal

// Parameters and buffers by name.  The names are those of the module without
// FullyShardedDataParallel.
using FsdpState = torch::OrderedDict<std::string, at::Tensor>;

// The part of a parameter that a rank keeps.
struct FsdpShard {
  std::string name;                 // As in FsdpState.
  std::vector<std::int64_t> sizes;  // Of the whole parameter.
  // The position of the first element of the part in the flattened parameter.
  std::int64_t offset = 0;
  // The part, with one dimension; empty if this rank has none.  A change changes the parameter.
  at::Tensor values;
};

class FsdpModule : public torch::nn::Module {
 public:
  // Restores what no_sync() has changed.
  class NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class FsdpModule;
    explicit NoSync(std::shared_ptr<internal::FsdpTree> tree);

    std::shared_ptr<internal::FsdpTree> tree_;
    bool before_;
  };

  ~FsdpModule() override;
  FsdpModule(const FsdpModule&) = delete;
  FsdpModule& operator=(const FsdpModule&) = delete;

  // Returns a guard, which counts for the whole model.  If forward() runs while the guard exists,
  // the backward() of its outputs accumulates gradients on this rank.  The next backward() without
  // a guard reduces the sum, for all units.  zero_grad() of the outermost unit forgets gradients
  // that are not reduced yet.  (zero_grad() of an optimizer does not.)
  //
  // Cost: each rank keeps the gradients of all parameters until the next reduction, in the dtype of
  // the reduction.
  [[nodiscard]] NoSync no_sync();

  // Scales the gradients so that the norm of all gradients, over all ranks, is at most `max_norm`.
  // Returns the norm before that.  `norm_type` can be infinity.  Call it on the outermost unit
  // after backward().  Parts of tensor parallel layers (tensor_parallel.h) count as whole
  // parameters.  (torch::nn::utils::clip_grad_norm_() computes a different norm on each rank, which
  // is wrong.)
  //
  // Throws: c10::ValueError if `max_norm` or `norm_type` is not positive.
  at::Tensor clip_grad_norm_(double max_norm, double norm_type = 2.0);

  // Gathers all parameters, and returns copies of them and of the buffers, on their device and in
  // their own dtype.  Of a tensor parallel layer, the state has this rank's part; see
  // TensorParallelModule::full_state_dict().
  //
  // Throws: c10::ValueError if a parameter was registered after the unit was constructed.
  // Cost: memory for all parameters on every rank.
  FsdpState full_state_dict();
  // Sets the parameters and buffers to these values, of which each rank uses those of its shard.
  // All ranks need the same values.  `state` must have each name of full_state_dict(), and no
  // other.
  //
  // Throws: c10::ValueError if a name is missing or unknown, or if sizes differ.  The module is
  // then unchanged.
  void load_full_state_dict(const FsdpState& state);

  // Returns this rank's parts of all parameters.  Does not communicate.
  std::vector<FsdpShard> shards();

  // Gathers the parameters of this unit and the units within, so that a function other than
  // forward() can use them under torch::NoGradGuard.  Call reshard() after that.  A change of a
  // gathered parameter is lost.
  void unshard();
  // Frees the gathered parameters.
  void reshard();

  // Sets gradients to zero or, by default, removes them.  Also forgets gradients that no_sync() has
  // kept.
  void zero_grad(bool set_to_none = true) override;

  // Throws c10::Error: torch::save() would save shards.  Use full_state_dict().
  void save(torch::serialize::OutputArchive& archive) const override;
  // Throws c10::Error.  Use load_full_state_dict() instead of torch::load().
  void load(torch::serialize::InputArchive& archive) override;
  // Throws c10::Error.  Move or convert a module before you shard it.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

 protected:
  // Shards the parameters of `module`.
  FsdpModule(const std::shared_ptr<torch::nn::Module>& module, const FsdpOptions& options);

  // One call of forward().  If it is destroyed before end(), the forward has failed.
  class Forward {
   public:
    // Gathers the parameters.
    explicit Forward(const std::shared_ptr<internal::FsdpUnit>& unit);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

    // Returns the tensor that the module receives instead of an argument.
    at::Tensor input(const at::Tensor& tensor);
    // Returns the tensors that the caller receives instead of the outputs.
    std::vector<at::Tensor> end(std::vector<at::Tensor> outputs);

   private:
    std::shared_ptr<internal::FsdpForwardCall> call_;
  };

  std::shared_ptr<internal::FsdpUnit> unit_;  // Its parameters and their communication.
};

}  // namespace distrun
