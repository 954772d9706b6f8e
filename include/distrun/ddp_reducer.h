// DdpReducer averages gradients over all ranks, as DistributedDataParallel does, for models that
// are not a torch::nn::Module.  The caller passes named parameters and buffers, and calls a
// function before and after each forward.
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
// tensor is not trained.  Buffers may be replaced (ddp_model.h).  A DdpReducer keeps the
// connections of its group open, even after destroy_process_group().
//
// Throws: c10::ValueError for arguments that are wrong on this rank; c10::DistBackendError if a
// peer is lost or a collective times out; c10::Error if the models of two ranks differ.  If
// communication fails in backward(), the c10::DistBackendError names the parameters whose gradients
// were being reduced.  If a communication hook throws, backward() throws the hook's exception.  For
// a gradient in CSR layout, backward() throws autograd's c10::Error, which does not name the
// parameter, as in Python.
// Thread safety: one thread at a time.
// Cost: backward() runs one all_reduce for each bucket of gradients (DdpOptions::bucket_cap_mb),
// while it computes the other gradients.  With n ranks in a ring, a rank sends 2 · (n - 1) / n
// times the bytes of its gradients.  The buckets need as much memory as the gradients, unless
// DdpOptions::gradient_as_bucket_view is true.
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
  // Checks the parameters.  If `init_sync` is true, also compares the parameters of all ranks, and
  // broadcasts their values from group rank 0.  With `broadcast_buffers`, broadcasts the buffers
  // too.
  //
  // Blocks: until every rank of the group has called the constructor.  If `init_sync` is false,
  // does not block.
  // Throws: c10::ValueError if a parameter is undefined, not dense, not a leaf, or not on the same
  // kind of device as the first parameter; if no parameter requires a gradient; if an option is
  // invalid; or if this rank is not in the group.
  // Cost: with `init_sync`, six requests to the store, two small collectives that compare sizes,
  // and a broadcast of all parameters and buffers.  The broadcast sends pieces of about 250 MiB,
  // and copies at most two pieces at the same time.
  explicit DdpReducer(DdpModel model, const DdpOptions& options = {});
  ~DdpReducer() override;
  DdpReducer(DdpReducer&&) noexcept;
  DdpReducer& operator=(DdpReducer&&) noexcept;

  // Prepares for a forward: copies the buffers of group rank 0 to all ranks, if
  // DdpOptions::broadcast_buffers is true.  Call before_forward() before each forward.  For each
  // forward that runs with gradients enabled, call backward() once.  A second backward() of the
  // same graph (retain_graph) is not detected: it adds gradients of this rank that are not reduced.
  //
  // Blocks: until group rank 0 has sent its buffers.  In the second iteration, also until group
  // rank 0 has sent the order in which the buckets contain the parameters.
  // Throws: c10::Error if the last backward() computed no gradient for some parameter; the text
  // names the parameter.  If a forward does not use all parameters, set find_unused_parameters.
  // Use every returned output in the loss.
  // Cost: a broadcast of all buffers (DdpOptions::broadcast_buffers).  In the second iteration,
  // also a broadcast of a few bytes for each parameter.
  void before_forward();
  // Prepares the reduction of gradients in the next backward().  Call after_forward() after each
  // forward, with all tensors that the forward returned.  Use the tensors that after_forward()
  // returns instead of these outputs: with find_unused_parameters or static_graph, they can be
  // copies with one more node in the autograd graph.
  //
  // Cost: with find_unused_parameters, walks the autograd graph.  With find_unused_parameters, or
  // before the first backward() of a static graph, copies the outputs that depend on a parameter.
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);

  // no_sync() returns this guard.
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
  // Returns a guard.  If a forward runs while the guard exists, its backward() does not reduce
  // gradients, even if that backward() runs later.  The gradients accumulate on this rank.  After
  // the guard is destroyed, the backward() of the next forward reduces the sum of the accumulated
  // gradients and its own.
  //
  // Cost: a backward() that does not reduce sends no data.
  [[nodiscard]] NoSync no_sync();

  // Makes backward() reduce gradients with this hook instead of averaging them (comm_hook.h).  Call
  // register_comm_hook() before the first backward().  If the hook returns a null Future, or a
  // Future whose tensor does not match the bucket, backward() throws a c10::ValueError with the
  // name of the hook.
  //
  // Throws: c10::Error if this object has a hook already; c10::ValueError if the function is empty.
  void register_comm_hook(CommHook hook, const std::string& name = "comm_hook");
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook);

  // Returns the hook with which a Join (join.h) trains this model.  A rank has joined when it has
  // used up its inputs.  Joined ranks contribute zeros to the backward() of the other ranks.
  //
  // In a Join, if a forward runs with gradients enabled, call its backward() before the next
  // forward of any joinable.  The n-th forward must reduce on all ranks or on none; otherwise the
  // ranks throw.  A forward does not reduce if gradients are disabled, or under no_sync().  At the
  // end of the Join, every rank gets the parameters of a rank that joined last.  With
  // broadcast_buffers, it also gets that rank's buffers.
  //
  // The hook reads the argument "divide_by_initial_world_size" (JoinConfig::arguments).  If the
  // argument is true, which is the default, gradients are divided by the number of all ranks.  If
  // the argument is false, gradients are divided by the number of ranks that have not joined.
  //
  // Throws: c10::ValueError for sparse gradients or skip_all_reduce_unused_params.  With
  // static_graph, a rank that had already joined when the other ranks ran their first backward()
  // throws a c10::Error if it trains later.
  // Cost: in each iteration of a Join, up to four all_reduces of one number each, in addition to
  // the usual collectives.  A joined rank takes part in all of these collectives.  At the end, a
  // broadcast of all parameters and, with broadcast_buffers, all buffers.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  // Returns the device of the first parameter.
  c10::Device join_device() const override;
  // Returns the group whose ranks train together.
  Group join_process_group() const override;

  // Returns the device to which the caller should move the arguments of a forward.  It is the
  // device in DdpOptions::device_ids.  If device_ids is empty, returns nothing.
  const std::optional<c10::Device>& input_device() const;

  // Returns what c10d::Logger recorded: options, bucket sizes, times of sampled iterations, and,
  // under the key "error", the last error of before_forward(), of after_forward(), or of the
  // registration of a hook.  The data does not contain errors of the constructor, or of
  // communication in backward().  In Python: _get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const;

  // Returns LibTorch's object.  Include <torch/csrc/distributed/c10d/reducer.hpp>.
  c10d::Reducer& reducer() const;

 private:
  // In a running join, reports that this rank has not joined.
  void notify_join();

  std::unique_ptr<internal::DdpCore> core_;
};

}  // namespace distrun
