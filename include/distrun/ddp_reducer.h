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
// copies the values of the group's rank 0 to all ranks, unless `init_sync` is false.  The
// DdpReducer keeps the parameter tensors.  You may change their values, but if you replace a
// parameter by another tensor, that tensor is not trained.  Buffers may be replaced (ddp_model.h).
// The DdpReducer also keeps the group's connections open, even after destroy_process_group().
//
// Throws: c10::ValueError for arguments that are wrong on this rank; c10::DistBackendError for a
// lost peer; c10::Error if the models of two ranks differ.  For a lost peer, the
// c10::DistBackendError of backward() names the parameters in the reduction.  If a communication
// hook throws, backward() throws the hook's exception.  For a gradient in CSR layout, backward()
// throws autograd's c10::Error, which does not name the parameter, as in Python.
// get_ddp_logging_data() contains, under the key "error", the last error of before_forward(),
// after_forward() or the registration of a hook.  It does not contain errors of the constructor, or
// of communication in backward().
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
  // Checks the parameters.  If `init_sync` is true, also broadcasts parameters, and with
  // `broadcast_buffers` buffers, from the group's rank 0.
  //
  // Blocks: until every rank of the group has constructed it, unless `init_sync` is false.
  // Throws: c10::ValueError if a parameter is undefined, not dense, not a leaf, or not on the same
  // kind of device as the first parameter; if no parameter requires a gradient; if an option is
  // invalid; or if this rank is not in the group.
  explicit DdpReducer(DdpModel model, const DdpOptions& options = {});
  ~DdpReducer() override;
  DdpReducer(DdpReducer&&) noexcept;
  DdpReducer& operator=(DdpReducer&&) noexcept;

  // Call it before each forward.  Call backward() once for each forward that runs with gradients
  // enabled.  A second backward() of the same graph (retain_graph) is not detected: it adds
  // gradients of this rank that are not reduced.
  //
  // Blocks: may wait for rank 0 of the group: until it has sent its buffers and, when buckets are
  // rebuilt, the order of the parameters in the buckets.
  // Throws: c10::Error if the last backward() computed no gradient for some parameter; the text
  // names the parameter.  Set find_unused_parameters if a forward does not use all parameters, and
  // use every returned output in the loss.
  void before_forward();
  // Call it after each forward, with all tensors that the forward returned.  Use the tensors that
  // it returns instead of the outputs: with find_unused_parameters or static_graph, they can be
  // copies with one more node in the autograd graph.
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);

  // A guard: see no_sync().
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
  // Returns a guard.  The gradients of a forward that runs while the guard exists are not reduced,
  // even if its backward() runs later: they accumulate on this rank.  After the guard is destroyed,
  // the backward() of the next forward reduces all accumulated gradients.
  [[nodiscard]] NoSync no_sync();

  // Reduces gradients with this hook instead of averaging them (comm_hook.h).  Call it before the
  // first backward().  If the hook returns a null Future, or a Future whose tensor does not match
  // the bucket, backward() throws a c10::ValueError with the name of the hook.
  //
  // Throws: c10::Error if this object has a hook already; c10::ValueError if the function is empty.
  void register_comm_hook(CommHook hook, const std::string& name = "comm_hook");
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook);

  // Returns the hook with which a Join (join.h) trains this model.  A rank has joined when it has
  // used up its inputs.  Joined ranks contribute zeros to the backward() of the other ranks.
  //
  // In a join, call the backward() of a forward that runs with gradients enabled before the next
  // forward of any object that takes part.  The n-th forward must reduce on all ranks or on none;
  // it does not reduce with gradients disabled or under no_sync().  Otherwise the ranks throw.  At
  // the end every rank has the parameters of a rank that joined last and, with broadcast_buffers,
  // its buffers.
  //
  // The hook reads the argument "divide_by_initial_world_size" (JoinConfig::arguments).  If the
  // argument is true, the default, gradients are divided by the number of all ranks.  If it is
  // false, they are divided by the number of ranks that have not joined.
  //
  // Throws: c10::ValueError for sparse gradients or skip_all_reduce_unused_params.  With
  // static_graph, a rank that had already joined when the other ranks ran their first backward()
  // throws a c10::Error if it trains later.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  // Returns the device of the first parameter.
  c10::Device join_device() const override;
  // Returns the group whose ranks train together.
  Group join_process_group() const override;

  // Returns the device to which the arguments of a forward should be moved, according to
  // DdpOptions::device_ids; nothing if they should not be moved.
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
