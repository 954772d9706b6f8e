// The collectives of the backend shm. It implements c10d::Backend, and groups know it by that class
// alone. Derived classes add messages: of one host (one_host_backend.h), or of several
// (backends/hosts).
//
// Collectives are complete when wait() returns. With asyncOp = false they run on the caller's
// thread before they return; otherwise a thread of the backend runs them, or the thread that waits.
//
// Errors: c10::ValueError for arguments. Works throw c10::DistBackendError, which names the rank
// that has ended, did not come or makes another call, by its number in the default group; if that
// rank is on another host and did not come, perhaps only the time-out. Thread
// safety: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/group/direct_calls.h"
#include "backends/group/libtorch_versions.h"
#include "backends/group/shared_tensors.h"
#include "backends/shm/host/collectives.h"
#include "backends/shm/shm_tensors.h"
#include "backends/shm/shm_work.h"
#include "distrun/backend_registry.h"

namespace distrun::shm {

class ShmBackend : public c10d::Backend,
                   public internal::SharesTensors,
                   public internal::DirectCalls {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  ShmBackend(int rank, int size, c10::intrusive_ptr<Options> options,
             std::shared_ptr<RankGroup> group);
  // Waits for the calls that were started.
  ~ShmBackend() override;

  const std::string getBackendName() const override { return "shm"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
    timeout_ = timeout;
  }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return calls_; }
  void abort() override { group_->abort(); }
  bool supportsSplitting() const override { return true; }
  // Makes a backend of some ranks of this group, which must all call this; null on other ranks.
  // Blocks until they have met.
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  // Does nothing to a tensor that is shared already, or too small to be reduced in place.
  Result<void> share(const at::Tensor& tensor) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE_COALESCED(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override;
#endif
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  bool barrier_now(Begin begin) override;
  bool broadcast_now(const at::Tensor& tensor, int root, Begin begin) override;
  bool all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op, Begin begin) override;
  bool all_gather_now(const at::Tensor& output, const at::Tensor& input, Begin begin) override;
  bool reduce_scatter_now(const at::Tensor& output, const at::Tensor& input,
                          const c10d::ReduceOp& op, Begin begin) override;
  bool all_to_all_now(const at::Tensor& output, const at::Tensor& input, Begin begin) override;

 protected:
  // The options that all calls have.
  struct Call {
    const char* name;
    c10d::OpType type;
    const char* title;
    std::chrono::milliseconds timeout;
    bool is_async;
  };
  // Runs `act` when the calls before it have run.
  WorkPtr begin(const Call& call, TensorLists outputs,
                std::function<void(Collectives&, Watch&)> act);

  std::chrono::milliseconds timeout() const { return timeout_; }
  std::uint64_t calls() const { return calls_; }

 private:
  // Makes a backend of the same class.
  virtual c10::intrusive_ptr<Backend> make(const BackendRequest& request) const = 0;

  template <class Options>
  static Call call(const char* name, c10d::OpType type, const char* title, const Options& options) {
    return {name, type, title, options.timeout, options.asyncOp};
  }

  // Runs `act` here, unless a call is running or pending.
  bool run_now(Begin begin, RankGroup::Call act);
  WorkPtr begin_monitored_barrier(std::chrono::milliseconds timeout);
  // Of tensors on which the ranks agree.
  WorkPtr begin_sparse_all_reduce(const Call& call, const at::Tensor& tensor,
                                  const c10d::ReduceOp& op);
  void check_root(const Call& call, std::int64_t root) const;
  void check_count(const Call& call, const char* what, std::size_t count, int expected) const;
  // Requires tensors of the same number of bytes.
  void check_all_like(const Call& call, const Tensors& tensors, const at::Tensor& like) const;
  void check_times_size(const Call& call, const at::Tensor& large, const at::Tensor& small) const;

  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<RankGroup> group_;
  const std::shared_ptr<CallQueue> queue_ = std::make_shared<CallQueue>();
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> calls_ = 0;
};

}  // namespace distrun::shm
