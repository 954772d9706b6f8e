// ZeroRedundancyOptimizer divides the state of an optimizer, such as momentum, between the ranks.
// Each rank updates a share of the parameters, keeps the optimizer's state of this share only, and
// sends the updated parameters to the other ranks.
//
//     DistributedDataParallel ddp(std::make_shared<Net>());
//     ZeroRedundancyOptimizer<torch::optim::Adam> optimizer(ddp.parameters(), 1e-3);
//     torch::optim::StepLR scheduler(optimizer, /*step_size=*/30, /*gamma=*/0.1);
//     for (const auto& [inputs, targets] : share_of(get_rank())) {
//       optimizer.zero_grad();
//       loss(ddp(inputs), targets).backward();
//       optimizer.step();                      // Now all ranks have the same parameters.
//     }
//     const auto whole = optimizer.consolidate_state_dict();
//     if (whole) torch::save(*whole, "optimizer.pt");
//
// A ZeroRedundancyOptimizer<Adam> is a torch::optim::Adam with all parameters, so learning-rate
// schedulers and training loops work as before.  Change options through param_groups(), on every
// rank.  state() has the entries of this rank's share only.  The results are those of the plain
// optimizer, which updates all parameters on each rank, if the gradients are the same on all ranks.
// (A parameter that is frozen between backward() and step() is not updated here.)
//
// The optimizer can be any class that treats each parameter alone and evaluates its closure once,
// such as SGD, Adam, AdamW, RMSprop or Adagrad.  LBFGS does neither.  The class must have a
// constructor with a std::vector<torch::optim::OptimizerParamGroup> and its options.
//
// Each parameter belongs to one rank.  As in Python, each parameter group, sorted by size, is
// assigned parameter by parameter to the rank that has the fewest elements so far.  A rank can have
// no parameters.  A parameter that is listed several times is updated once.  Parameters may have
// several dtypes and devices.  A parameter that does not require a gradient is neither updated nor
// sent.  To freeze parameters or to add groups, do the same on every rank.
//
// CheckpointState::add_optimizer() (checkpoint.h) saves the shares of all ranks in parallel, and
// any number of ranks loads them.  Three other ways to save:
//   - consolidate_state_dict() returns the plain optimizer with the state of all shares.  The file
//     that torch::save() writes of it is the file of the plain optimizer.
//   - torch::save(optimizer, file) on each rank saves this rank's share.  Only the same rank of
//     equally many ranks can load it.  On one rank, the share is everything, and the file is that
//     of the plain optimizer.
//   - torch::load(optimizer, file) on each rank loads either file.  Of the whole state, it keeps
//     this rank's share.  It moves the state to the devices of the parameters.
//
// Blocks: the constructor blocks until every rank of the group has called it, and step() until it
// has the parameters of all ranks.  With "nccl", step() only enqueues the work.
// Throws: c10::ValueError on every rank if a rank has a parameter that is undefined, not dense or
// not a leaf, if a parameter is in two groups, if no group has a parameter, if options are wrong,
// or if parameters or options differ between ranks.
// Also throws c10::ValueError if this rank is not in the group.
// Also throws the exceptions of collectives.h.
// Thread safety: one thread at a time.
// Cost: on n ranks, each rank updates about 1/n of the parameters, and keeps 1/n of the state.
// step() sends each parameter once, and small ones together.
// PyTorch source: torch/distributed/optim/zero_redundancy_optimizer.py.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include "distrun/detail/divided_optimizer.h"
#include "distrun/detail/zero_redundancy_core.h"
#include "distrun/group.h"
#include "distrun/join.h"

namespace torch::optim {
class LBFGS;
}

namespace distrun {

// Options of ZeroRedundancyOptimizer.
struct ZeroRedundancyOptions {
  // The ranks that share the state.
  Group process_group = {};
  // If true, the parameters of each rank become views of one tensor for each dtype and device, so
  // step() sends them without copies, in one collective for each rank.  Do not replace the data of
  // parameters then, for example by Module::to(): it costs a copy in the next step().
  bool parameters_as_bucket_view = false;
  // If true, backward() of a DistributedDataParallel updates the parameters, while it reduces other
  // gradients, and step() does nothing.  Register a hook from ddp_zero_hook.h.
  bool overlap_with_ddp = false;
};

template <class Wrapped>
class ZeroRedundancyOptimizer : public Wrapped, public Joinable, public internal::DividedOptimizer {
  static_assert(std::is_base_of_v<torch::optim::Optimizer, Wrapped>,
                "ZeroRedundancyOptimizer needs a class that derives from torch::optim::Optimizer");
  static_assert(!std::is_base_of_v<torch::optim::LBFGS, Wrapped>,
                "ZeroRedundancyOptimizer cannot divide LBFGS: it computes one step from all "
                "parameters, and each rank would evaluate the closure a different number of times");
  using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

 public:
  // Creates an optimizer of these parameter groups.  `defaults` are options of the optimizer, such
  // as torch::optim::AdamOptions(1e-3).  Groups without options use them.
  template <class Defaults>
  ZeroRedundancyOptimizer(const ParamGroups& groups, const Defaults& defaults,
                          const ZeroRedundancyOptions& options = {})
      : ZeroRedundancyOptimizer(
            std::make_unique<internal::ZeroRedundancyCore>(
                groups,
                internal::ZeroRedundancyCore::Options{options.process_group,
                                                      options.parameters_as_bucket_view,
                                                      options.overlap_with_ddp},
                [defaults](const ParamGroups& some) -> std::unique_ptr<torch::optim::Optimizer> {
                  return std::make_unique<Wrapped>(some, defaults);
                }),
            defaults) {}
  // Creates an optimizer of one group with these parameters.
  template <class Defaults>
  ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Defaults& defaults,
                          const ZeroRedundancyOptions& options = {})
      : ZeroRedundancyOptimizer(
            ParamGroups{torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults,
            options) {}
  // Moves the state and the groups.  A hook from ddp_zero_hook.h then updates the new object.
  ZeroRedundancyOptimizer(ZeroRedundancyOptimizer&& other) noexcept
      : Wrapped(static_cast<Wrapped&&>(other)),
        Joinable(static_cast<Joinable&&>(other)),
        core_(std::move(other.core_)) {
    core_->set_optimizer(*this, plain_step());
  }

  // Updates this rank's share of the parameters, and sends it to the other ranks.  Call step() on
  // every rank, with the same gradients; a DistributedDataParallel provides them.  step() calls the
  // closure before it updates parameters, and returns its result.
  //
  // If the update or the closure throws on a rank, step() throws on every rank, and no rank waits.
  // If the group has no backend for the CPU, the other ranks are not informed.
  //
  // With overlap_with_ddp, step() evaluates the closure, updates nothing, and warns once.  Without
  // a hook from ddp_zero_hook.h, it throws c10::Error.
  //
  // Blocks: until this rank has the parameters of all ranks.  With "nccl", see above.
  // Throws: the exception of the optimizer or closure, on the rank that failed.
  // Also throws c10::DistError on the other ranks.  The text names the first rank that failed, and
  // contains the text of its exception.
  // Also throws c10::ValueError on every rank if a parameter is frozen on some ranks only, or has
  // another dtype there.
  // Also throws c10::Error if the optimizer evaluates the closure more than once.
  // Also throws c10::ValueError if a list in param_groups() has other parameters than before.
  // Also throws c10::Error if overlap_with_ddp is set, and no hook has updated parameters.
  // Cost: a broadcast from each rank of each parameter, and an all_reduce of 24 bytes.  Parameters
  // below 256 KiB are sent together.
  at::Tensor step(torch::optim::Optimizer::LossClosure closure = nullptr) override {
    notify_join_context();
    return core_->step(closure);
  }

  // Adds a group of parameters.  Every rank must call it.  Earlier parameters remain on their
  // ranks.  A group that is added through a torch::optim::Optimizer& is checked and assigned in the
  // next step().
  //
  // Blocks: until every rank has called it.
  // Throws: as the constructor.  The group is then not added.
  // Also throws c10::ValueError after hook_with_zero_step() (ddp_zero_hook.h).
  void add_param_group(const torch::optim::OptimizerParamGroup& group) {
    core_->add_param_group(*this, group);
  }

  // Returns the plain optimizer with the state of all ranks, on rank `to`.  On the other ranks,
  // returns null.  Every rank must call it.  The result has the parameters and options of this
  // optimizer, and copies of the state on the CPU.  Save it with torch::save(*result, file).  To
  // load this file into the plain optimizer of a model on a GPU, pass the device to torch::load().
  //
  // Python returns nothing here, keeps the state, and returns it from state_dict().
  //
  // Blocks: until rank `to` has the state of all ranks.
  // Cost: rank `to` receives the state of all ranks, and needs memory for twice as much.
  std::unique_ptr<Wrapped> consolidate_state_dict(AnyRank to = GroupRank(0)) {
    auto whole = core_->consolidated(*this, to, saves());
    return std::unique_ptr<Wrapped>(static_cast<Wrapped*>(whole.release()));
  }

  // Saves the options and the state of this rank's share.  torch::save(optimizer, …) calls it.
  void save(torch::serialize::OutputArchive& archive) const override {
    core_->save(archive, saves());
  }
  // Loads the options, and of the state this rank's share.  torch::load(optimizer, …) calls it.
  // Load the same state on every rank.
  //
  // Throws: c10::ValueError if the archive has the share of another rank, or of another number of
  // ranks.
  // Also throws c10::Error if the archive has other parameter groups.
  void load(torch::serialize::InputArchive& archive) override {
    core_->load(
        *this, archive, [this](torch::serialize::InputArchive& from) { Wrapped::load(from); },
        saves());
  }

  // Returns the group rank that updates this parameter.
  //
  // Throws: c10::ValueError if it is not a parameter of this optimizer.
  int rank_of(const at::Tensor& parameter) const { return core_->rank_of(parameter); }

  // For checkpoints (checkpoint.h): returns whether this rank updates the parameter.
  bool updates(const at::Tensor& parameter) const override { return core_->updates(parameter); }

  // Returns the JoinHook of this optimizer for a Join (join.h).  A joined rank still updates its
  // share.  List the DistributedDataParallel of the model first: it gives joined ranks the
  // gradients of the other ranks.  In another order, the run fails.  Without one, your program must
  // set the gradients of joined ranks.
  //
  // Throws: c10::ValueError if overlap_with_ddp is set.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& /*arguments*/) override {
    return core_->join_hook([this] { step(); });
  }
  // Returns the device of the first parameter.
  c10::Device join_device() const override { return core_->device(); }
  // Returns the group whose ranks share the state.
  Group join_process_group() const override { return core_->group(); }

  // Only distrun calls this function.
  internal::ZeroRedundancyCore& core() { return *core_; }

 private:
  // The state that some optimizers create in their constructor is that of this rank's share.
  template <class Defaults>
  ZeroRedundancyOptimizer(std::unique_ptr<internal::ZeroRedundancyCore> core,
                          const Defaults& defaults)
      : Wrapped(core->own_groups(), defaults), core_(std::move(core)) {
    core_->show_all_parameters(*this);
    core_->set_optimizer(*this, plain_step());
  }

  internal::ZeroRedundancyCore::Step plain_step() {
    return [this](torch::optim::Optimizer::LossClosure once) {
      return Wrapped::step(std::move(once));
    };
  }

  internal::ZeroRedundancyCore::Save saves() const {
    return [this](torch::serialize::OutputArchive& to) { Wrapped::save(to); };
  }

  std::unique_ptr<internal::ZeroRedundancyCore> core_;
};

}  // namespace distrun
