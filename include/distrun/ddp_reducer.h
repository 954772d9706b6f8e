// DdpReducer averages gradients over all ranks, for a model that is not a torch::nn::Module.
// DistributedDataParallel does the same for a torch::nn::Module.  The caller passes named
// parameters and buffers to DdpReducer.  In this header, a forward is one computation of the
// model's outputs.  The caller calls before_forward() before each forward, and after_forward()
// after it.
//
//     DdpReducer ddp({.name = "Net", .parameters = {{"w", w}, {"b", b}}}, {.bucket_cap_mb = 10});
//     for (…) {
//       ddp.before_forward();
//       at::Tensor out = ddp.after_forward({net(input)})[0];
//       loss(out).backward();                  // w.grad() and b.grad() are means over all ranks.
//       optimizer.step();
//     }
//
// Every rank constructs a DdpReducer with the same parameters in the same order.  The constructor
// copies the values of group rank 0 to all ranks, unless DdpOptions::init_sync is false.  You may
// change the values of the parameters later.  If you replace a parameter by another tensor, the new
// tensor is not trained.  You may replace buffers (ddp_model.h).  A DdpReducer keeps the
// connections of its group open, even after destroy_process_group().
//
// Throws: c10::ValueError if arguments on this rank are wrong.
// Also throws c10::DistBackendError if a peer is lost or a collective times out.  If communication
// fails in backward(), the error names the parameters whose gradients were being reduced.
// Also throws c10::Error if the models of two ranks differ.
// Also throws, in backward(), the exception of a communication hook.
// Also throws c10::Error in backward() if a gradient has CSR layout.  This error comes from
// autograd and does not name the parameter, as in Python.
// Thread safety: one thread at a time.
// Cost: backward() runs one all_reduce for each bucket of gradients (DdpOptions::bucket_cap_mb).
// The all_reduce of a bucket runs while backward() computes other gradients.  With n ranks in a
// ring, a rank sends 2 · (n - 1) / n times the bytes of its gradients.  The buckets need as much
// memory as the gradients, unless DdpOptions::gradient_as_bucket_view is true.
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
  // Checks the parameters.  If DdpOptions::init_sync is true, also compares the parameters of all
  // ranks, and broadcasts the parameters from group rank 0.  If DdpOptions::broadcast_buffers is
  // true too, also broadcasts the buffers.
  //
  // Blocks: until every rank of the group has called the constructor.  If `init_sync` is false, the
  // constructor does not block.
  // Throws: c10::ValueError if a parameter is undefined, not dense, or not a leaf.
  // Also throws c10::ValueError if two parameters are on different kinds of devices.
  // Also throws c10::ValueError if no parameter requires a gradient.
  // Also throws c10::ValueError if an option is invalid, or if this rank is not in the group.
  // Cost: if `init_sync` is true, six requests to the store, two small collectives that compare
  // sizes, and a broadcast of all parameters and buffers.  The broadcast sends pieces of about 250
  // MiB.  At most two pieces are copied at the same time.
  explicit DdpReducer(DdpModel model, const DdpOptions& options = {});
  ~DdpReducer() override;
  DdpReducer(DdpReducer&&) noexcept;
  DdpReducer& operator=(DdpReducer&&) noexcept;

  // Prepares for a forward.  If DdpOptions::broadcast_buffers is true, copies the buffers of group
  // rank 0 to all ranks.  Call before_forward() before each forward.  For each forward that runs
  // with gradients enabled, call backward() exactly once.  A second backward() of the same graph
  // (retain_graph) is not detected.  It adds gradients of this rank alone, and does not reduce
  // them.
  //
  // Blocks: until group rank 0 has sent its buffers.  In the second iteration, before_forward()
  // also blocks until group rank 0 has sent the order of the parameters in the buckets.
  // Throws: c10::Error if the last backward() computed no gradient for some parameter.  The text
  // names the parameter.  To avoid this error, use every tensor that after_forward() returns in the
  // loss.  If a forward may leave parameters unused, set DdpOptions::find_unused_parameters.
  // Also throws c10::Error if the last backward() threw after it had computed all gradients.
  // Construct a new object in this case.
  // Cost: a broadcast of all buffers (DdpOptions::broadcast_buffers).  The second iteration also
  // needs a broadcast of a few bytes for each parameter.
  void before_forward();
  // Prepares the reduction of gradients in the next backward().  Call after_forward() after each
  // forward, and pass all outputs of the forward.  Compute the loss from the tensors that
  // after_forward() returns, and not from the original outputs.  With find_unused_parameters or
  // static_graph, the returned tensors can be copies that have one more node in the autograd graph.
  //
  // Cost: with find_unused_parameters, after_forward() walks the autograd graph.  With
  // find_unused_parameters, or before the first backward() of a static graph, after_forward()
  // copies the outputs that depend on a parameter.
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);
  // Call abandon_forward() if a forward throws after before_forward().  With
  // DdpOptions::mixed_precision, the parameters then have their own dtype again.
  void abandon_forward();

  // The type of the guard that no_sync() returns.
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
  // Returns a guard.  If a forward runs while the guard exists, the backward() of this forward does
  // not reduce gradients, even if the guard is destroyed before this backward() runs.  The
  // gradients accumulate on this rank.  After the guard is destroyed, the backward() of the next
  // forward adds its gradients to the accumulated gradients, and reduces the sum.
  //
  // Cost: a backward() that does not reduce sends no data.  The first forward under the guard can
  // still broadcast buffers (DdpOptions::broadcast_buffers).
  [[nodiscard]] NoSync no_sync();

  // Registers a communication hook (comm_hook.h).  backward() then reduces gradients with this
  // hook, and does not average them itself.  Call register_comm_hook() before the first backward().
  //
  // If the hook returns a null Future, backward() throws a c10::ValueError that contains `name`.
  // backward() also throws this error if the tensor of the Future does not match the bucket.
  //
  // Throws: c10::Error if this object has a communication hook already.
  // Also throws c10::ValueError if `hook` is empty, or if DdpOptions::mixed_precision converts
  // gradients.
  void register_comm_hook(CommHook hook, const std::string& name = "comm_hook");
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook);
  // Call this function if the communication hook updates parameters and resets their grad().
  // backward() then does not store the reduced gradients in grad().  For a hook that does this, see
  // apply_optimizer_in_backward.h.
  //
  // Throws: c10::ValueError if DdpOptions::mixed_precision has a `param_dtype`.
  void set_optimizer_in_backward();

  // Returns the JoinHook of this model for a Join.  join.h explains the words "join", "joinable"
  // and "hook".  Ranks that have joined contribute zeros to the backward() of the other ranks, and
  // have the reduced gradients in grad() until the Join ends, for optimizers in the Join.  (In
  // Python, they do not have them.)  After that, grad() is as it was when they joined.
  //
  // In a Join, if a forward runs with gradients enabled, call its backward() before the next
  // forward of any joinable.  A forward does not reduce if it runs with gradients disabled or under
  // no_sync().  The n-th forward must reduce on all ranks or on none.  Otherwise the ranks throw.
  // At the end of the Join, every rank gets the parameters of a rank that joined last.  With
  // broadcast_buffers, every rank also gets the buffers of this rank.
  //
  // The JoinHook reads the argument "divide_by_initial_world_size" (JoinConfig::arguments).  The
  // default is true.  If the argument is true, gradients are divided by the number of all ranks.
  // If the argument is false, gradients are divided by the number of ranks that have not joined.
  //
  // Throws: c10::ValueError if the model has sparse gradients, if skip_all_reduce_unused_params is
  // true, or if hook_with_zero_step() made a hook of this object (ddp_zero_hook.h).
  // Also throws c10::ValueError if "divide_by_initial_world_size" is false and
  // DdpOptions::mixed_precision converts gradients.
  // With static_graph, a later forward throws c10::Error if this rank had joined before the other
  // ranks ran their first backward().
  // Cost: each iteration of a Join runs up to four all_reduces of one number each, in addition to
  // the usual collectives.  A rank that has joined takes part in all of these collectives.  At the
  // end, the Join broadcasts all parameters and, with broadcast_buffers, all buffers.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  // Returns the device of the first parameter.
  c10::Device join_device() const override;
  // Returns the group whose ranks train together.
  Group join_process_group() const override;

  // Returns the device to which the caller should move the arguments of a forward.  This device is
  // the one in DdpOptions::device_ids.  If device_ids is empty, returns nothing.
  const std::optional<c10::Device>& input_device() const;
  // Returns whether converted_input() can change a tensor.
  bool converts_inputs() const;
  // Converts a tensor in the arguments of a forward.  Returns the tensor on input_device(), and, if
  // it has floating-point numbers, in the `param_dtype` of DdpOptions::mixed_precision.
  //
  // If converts_inputs() is true, call converted_input() for each tensor in the arguments of a
  // forward.  A DdpReducer does not see these arguments.
  at::Tensor converted_input(const at::Tensor& tensor) const;

  // Returns what c10d::Logger recorded: options, bucket sizes, and times of sampled iterations.
  // The key "error" has the last error of before_forward(), of after_forward(), or of the
  // registration of a communication hook.  The data does not contain errors of the constructor, or
  // errors of communication in backward().  The corresponding function of Python is
  // _get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const;

  // Returns LibTorch's c10d::Reducer of this object.  To use it, include
  // <torch/csrc/distributed/c10d/reducer.hpp>.
  c10d::Reducer& reducer() const;

  // Only distrun calls this function.
  internal::DdpCore& core() const { return *core_; }

 private:
  // In a running join, reports that this rank has not joined.
  void notify_join();

  std::unique_ptr<internal::DdpCore> core_;
};

}  // namespace distrun
