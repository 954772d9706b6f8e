// The backend "fake", which distrun/fake.h describes for users.
//
// collectives.h and LibTorch (Reducer, functional collectives) call it through a
// c10d::ProcessGroup, so it checks tensors, ranks and splits itself, and throws c10::Error.
//
// Operations are complete when they return: they write their outputs without autograd, on the
// caller's thread and current streams. Thread safety: any thread may call it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/fake/wire_traffic.h"
#include "backends/group/backend_traits.h"
#include "backends/group/libtorch_versions.h"
#include "distrun/backend_registry.h"
#include "distrun/fake_options.h"
#include "distrun/group.h"

namespace distrun::internal {

class FakeBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  FakeBackend(int rank, int size, c10::intrusive_ptr<FakeOptions> options);

  WireCount& traffic() { return traffic_; }

  const std::string getBackendName() const override { return "fake"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return collectives_; }
  void abort() override { is_aborted_ = true; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
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
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // Calls between the two complete and count as usual.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {}
  WorkPtr endCoalescing() override;

 private:
  struct Done {
    const char* name;
    c10d::OpType type;
    std::int64_t payload = 0;
    WireBytes wire = {};
    int source = -1;
  };

  void check_alive(const char* name) const;
  // Throws if the group is aborted or error_on_collective is set.
  void begin_collective(const char* name);
  // `what` is "root", "destination" or "source".
  void check_rank(const char* name, const char* what, std::int64_t rank) const;
  void check_count(const char* name, const char* what, std::size_t count, int expected) const;
  void check_times_size(const char* name, const at::Tensor& large, const at::Tensor& small) const;
  void check_splits(const char* what, const at::Tensor& tensor,
                    const std::vector<std::int64_t>& sizes) const;

  void gather_into(const char* name, const at::Tensor& output, const at::Tensor& input) const;
  void scatter_from(const char* name, const at::Tensor& output, const at::Tensor& input) const;

  // Counts the operation and returns its work.
  WorkPtr done(const Done& what, TensorLists outputs);

  const c10::intrusive_ptr<FakeOptions> options_;
  const WireModel model_;
  WireCount traffic_;
  std::atomic<std::uint64_t> collectives_ = 0;
  std::atomic<bool> is_aborted_ = false;
};

// Throws c10::TypeError for options of another backend.
c10::intrusive_ptr<c10d::Backend> make_fake_backend(const BackendRequest& request);
std::shared_ptr<const BackendTraits> fake_traits();

}  // namespace distrun::internal
