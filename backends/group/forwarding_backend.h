// Base classes of backends that pass calls on to other backends.
//
//     class Counted : public internal::ForwardingBackend { … };  // The rest goes to one backend.
//
// Thread safety: the same as that of the other backends.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/group/libtorch_versions.h"

namespace distrun::internal {

// Passes on collectives only; other calls fail, as in c10d::Backend.
class ForwardingCollectives : public c10d::Backend {
 public:
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  using c10d::Backend::Backend;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options = {}) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options = {}) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options = {}) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options = {}) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options = {}) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options = {}) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options = {}) override;
  WorkPtr DISTRUN_ALL_GATHER_SINGLE_COALESCED(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options = {}) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options = {}) override;
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options = {}) override;
#endif
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options = {}) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE_COALESCED(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options = {}) override;
  WorkPtr DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const c10d::AllToAllOptions& options = {}) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options = {}) override;

 private:
  // Returns the backend of the next collective.  Called once for each.
  virtual c10d::Backend& for_collective() = 0;
};

// Passes these calls on to one backend: collectives, point to point, barriers, coalescing, windows,
// abort and completion hooks, options, eager connections, abort and shutdown. The rest is as in
// c10d::Backend: the bound device, getError(), memory allocators, suspend(), shrink(), time
// estimates, and reconfigure(), which changes rank and size.
class ForwardingBackend : public ForwardingCollectives {
 public:
  explicit ForwardingBackend(BackendPtr inner);

  c10d::Backend& inner() const { return *inner_; }
  const BackendPtr& inner_pointer() const { return inner_; }

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  std::uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void setGroupUid(const std::string& uid) override;
  void eagerConnectSingleDevice(at::Device device) override {
    inner_->eagerConnectSingleDevice(device);
  }
  void enableCollectivesTiming() override { inner_->enableCollectivesTiming(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

#if DISTRUN_LIBTORCH_SINCE(2, 14)
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) override {
    inner_->addEphemeralTimeout(timeout);
  }
  bool supportsWindow() const override { return inner_->supportsWindow(); }
  c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor>& tensor) override {
    return inner_->new_window(tensor);
  }
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override {
    inner_->registerAbortHook(id, std::move(hook));
  }
  void unregisterAbortHook(std::int64_t id) override { inner_->unregisterAbortHook(id); }
#endif
#if DISTRUN_LIBTORCH_SINCE(2, 15)
  bool supportsAbortHooks() const override { return inner_->supportsAbortHooks(); }
  bool supportsCompletionHooks() const override { return inner_->supportsCompletionHooks(); }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override {
    inner_->registerCompletionHook(id, std::move(hook));
  }
  void unregisterCompletionHook(std::int64_t id) override { inner_->unregisterCompletionHook(id); }
#endif

  bool supportsSplitting() const override { return inner_->supportsSplitting(); }
  // The results are not wrapped.
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const c10::intrusive_ptr<Options>& options) override;
  BackendPtr merge(const c10::intrusive_ptr<c10d::Store>& store,
                   const c10::intrusive_ptr<Options>& options, const int& rank,
                   const int& size) override;

  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  void startCoalescing() override { inner_->startCoalescing(); }
  WorkPtr endCoalescing() override { return inner_->endCoalescing(); }

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options = {}) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  c10d::Backend& for_collective() final { return *inner_; }

  const BackendPtr inner_;
};

}  // namespace distrun::internal
