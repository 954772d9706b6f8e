// DdpReducer is DistributedDataParallel for modules that are not torch::nn::Module: it knows
// parameters and buffers by name, and nothing of the calls that use them.
//
//     DdpReducer ddp({.name = "Net", .parameters = {{"w", w}, {"b", b}}}, {.bucket_cap_mb = 10});
//     for (…) {
//       ddp.before_forward();
//       at::Tensor out = ddp.after_forward({net(input)})[0];
//       loss(out).backward();                  // w.grad(), b.grad(): the mean of all ranks
//       optimizer.step();
//     }
//
// Every rank makes it, with the same parameters in the same order.  When it is made, they get the
// values of the group's rank 0.  From then on backward() reduces gradients, by c10d::Reducer.
//
// The parameters' tensors are held, and stay the same tensors: change their values, not them.
//
// Errors: c10::ValueError for what this rank can see to be wrong, c10::DistBackendError for a peer
// that is gone, c10::Error for ranks that differ: that is what the constructor and before_forward()
// throw.  backward() throws the same for a peer that is gone, with the names of the parameters that
// it reduced; with a communication hook, what the hook throws.  Errors are in
// get_ddp_logging_data() under "error", too, but for the constructor's and those of backward().
//
// The group's connections live as long as this does, also after destroy_process_group().
//
// Threads: one at a time.
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
  // A collective: returns when the others have come.
  explicit DdpReducer(DdpModel model, const DdpOptions& options = {});
  ~DdpReducer() override;
  DdpReducer(DdpReducer&&) noexcept;
  DdpReducer& operator=(DdpReducer&&) noexcept;

  // Around each forward.  Each forward has one backward(): a second one of the same graph
  // (retain_graph) adds this rank's own gradients, which are not reduced, and LibTorch does not see
  // it.  after_forward() takes the tensors that forward has returned, all of them,
  // and returns what is to be used in their place: with find_unused_parameters, and in the first
  // iteration of static_graph, the graph is continued there.
  void before_forward();
  std::vector<at::Tensor> after_forward(std::vector<at::Tensor> outputs);

  // While a guard lives, forwards do without synchronization: their gradients add up on this
  // rank, and the first backward of a later forward reduces them all.
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
  [[nodiscard]] NoSync no_sync();

  // One hook for each model, before its first backward: a second one is a c10::Error.  A hook that
  // returns a null Future, or one of something else than a tensor like its bucket's, makes
  // backward() throw a c10::ValueError that names it.
  void register_comm_hook(CommHook hook, const std::string& name = "comm_hook");
  void register_builtin_comm_hook(BuiltinCommHook hook);

  // For Join (join.h): ranks that have joined reduce zeros in the others' backward().  In a join a
  // forward with gradients is followed by its backward before the next forward of any joinable, and
  // the n-th forward is of one kind on all ranks: with gradients, without, or under no_sync();
  // where one rank has gradients and another has not, it is an error on all.  Refused are sparse
  // gradients, and skip_all_reduce_unused_params.  Of a static graph a rank that had no input in
  // the first join cannot train later.
  //
  // In the end every rank has the parameters of a rank that joined last, and with
  // broadcast_buffers its buffers.  Of the arguments it knows one, "divide_by_initial_world_size":
  // if true, gradients are divided by the number of all ranks; if false, by that of those that have
  // not joined.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override;
  c10::Device join_device() const override;
  Group join_process_group() const override;

  // Where the tensors among forward's arguments belong; none: where they are.
  const std::optional<c10::Device>& input_device() const;

  // What c10d::Logger knows: options, sizes of buckets, times of sampled iterations, "error".
  // Python's _get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const;

  // LibTorch's own: include <torch/csrc/distributed/c10d/reducer.hpp>.
  c10d::Reducer& reducer() const;

 private:
  // Reports, in a running join, that this rank has not joined.
  void notify_join();

  std::unique_ptr<internal::DdpCore> core_;
};

}  // namespace distrun
