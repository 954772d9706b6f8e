// DdpReducer is DistributedDataParallel for models that are not a torch::nn::Module.  The caller
// passes named parameters and buffers, and calls a function before and after each forward.
//
//     DdpReducer ddp({.name = "Net", .parameters = {{"w", w}, {"b", b}}}, {.bucket_cap_mb = 10});
//     for (…) {
//       ddp.before_forward();
//       at::Tensor out = ddp.after_forward({net(input)})[0];
//       loss(out).backward();                  // w.grad(), b.grad(): the mean over all ranks.
//       optimizer.step();
//     }
//
// Every rank constructs a DdpReducer with the same parameters in the same order.  The constructor
// copies the values of the group's rank 0 to all ranks.  The DdpReducer keeps these tensors, so
// change their values but do not replace them.  It also keeps the group's connections, even after
// destroy_process_group().
//
// Throws: c10::ValueError for arguments that are wrong on this rank; c10::DistBackendError for a
// lost peer; c10::Error if the models of two ranks differ.  For a lost peer, backward() throws
// c10::DistBackendError with the names of the parameters in the reduction.  With a communication
// hook, backward() throws what the hook throws.  For a gradient in CSR layout, backward() throws
// autograd's c10::Error, which does not name the parameter, as in Python.  get_ddp_logging_data()
// returns errors under the key "error", except errors of the constructor and of backward().
// Thread safety: one thread at a time.
// PyTorch source: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Logging.h>

#include "distrun/comm_hook.h"
#include "distrun/ddp_model.h"
#include "distrun/ddp_options.h"
#include "distrun/join.h"

namespace c10d {
class Reducer;
}
namespace distrun::internal {
struct DdpCore;
}

namespace distrun {

class DdpReducer : public Joinable {
 public:
  // Checks the parameters, and broadcasts parameters and buffers from the group's rank 0.
  //
  // Blocks: until every rank of the group has constructed it, unless init_sync is off.
  // Throws: c10::ValueError for a parameter that is undefined, not a leaf or on another kind of
  // device; if none requires a gradient; for invalid options; if this rank is not in the group.
  explicit DdpReducer(DdpModel model, const DdpOptions& options = {});
  ~DdpReducer() override;
  DdpReducer(DdpReducer&&) noexcept;
  DdpReducer& operator=(DdpReducer&&) noexcept;

  // Call it before each forward.  Call backward() once for each forward.  A second backward() of
  // the same graph (retain_graph) is not detected: it adds gradients of this rank that are not
  // reduced.
  //
  // Blocks: may wait until the group's rank 0 has sent its buffers and its order of buckets.
  // Throws: c10::Error, naming the parameters, if the last forward left some unused without
  // find_unused_parameters.
  void before_forward();
  // Call it after each forward, with all tensors that the forward returned.  Returns the tensors to
  // use in their place, which extend the graph for find_unused_parameters and static_graph.
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);

  // While a guard exists, gradients accumulate on this rank: see no_sync().
  class NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class DdpReducer;
    explicit NoSync(std::shared_ptr<int> living);
    std::shared_ptr<int> living_;
  };
  // Forwards under the guard are not synchronized: their gradients accumulate on this rank, and the
  // first backward of a later forward reduces them all.
  [[nodiscard]] NoSync no_sync();

  // Replaces the mean by a hook (comm_hook.h).  Call it before the first backward.  backward()
  // throws a c10::ValueError that names the hook if it returns a null Future or one whose tensor
  // does not match the bucket.
  //
  // Throws: c10::Error if the model has a hook already; c10::ValueError for an empty function.
  void register_comm_hook(CommHook hook, const std::string& name = "comm_hook");
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook);

  // Returns the hook with which a Join (join.h) trains this model.  Joined ranks contribute zeros
  // to the backward() of the other ranks.
  //
  // In a join, call the backward() of each forward with gradients before the next forward of any
  // joinable.  The n-th forward must be of the same kind on all ranks: with gradients, without
  // gradients, or under no_sync().  Otherwise all ranks throw.  At the end every rank has the
  // parameters of a rank that joined last.  With broadcast_buffers it also has the buffers of that
  // rank.
  //
  // The hook reads the argument "divide_by_initial_world_size".  If the argument is true, the
  // default, gradients are divided by the number of all ranks.  If it is false, they are divided by
  // the number of ranks that have not joined.
  //
  // Throws: c10::ValueError for sparse gradients or skip_all_reduce_unused_params.  A rank that had
  // no input in the first join of a static graph throws a c10::Error when it trains later.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  // Returns the device of the first parameter.
  c10::Device join_device() const override;
  // Returns the group that trains.
  Group join_process_group() const override;

  // Returns the device to which forward's arguments should be moved; nothing if they stay.
  const std::optional<c10::Device>& input_device() const;

  // Returns what c10d::Logger recorded: options, bucket sizes, times of sampled iterations,
  // "error".  In Python: _get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const;

  // Returns LibTorch's object.  Include <torch/csrc/distributed/c10d/reducer.hpp>.
  c10d::Reducer& reducer() const;

 private:
  // Reports in a running join that this rank has not joined.
  void notify_join();

  std::unique_ptr<internal::DdpCore> core_;
};

}  // namespace distrun
