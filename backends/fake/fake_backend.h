// The backend "fake" itself: what its operations do, count and refuse.  For the files of this
// folder; what it is for, and what it makes of the tensors, is told in fake.h.
//
// It is called through a c10d::ProcessGroup, by collectives.h or by LibTorch (Reducer, functional
// collectives), so it checks what it would stumble over by itself: numbers of tensors, ranks,
// sizes, dtypes, splits.  Those are c10::Error, as other backends' are.
//
// Nothing is under way when an operation returns: its outputs are written, past autograd, on the
// caller's thread and its current streams.  Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/fake/wire_traffic.h"
#include "backends/group/backend_traits.h"
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
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
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

  // What is called between them is done at once, and counted by itself.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override {}
  WorkPtr endCoalescing() override;

 private:
  // An operation that has been done.
  struct Done {
    const char* name;
    c10d::OpType type;
    std::int64_t payload = 0;
    WireBytes wire = {};
    int source = -1;
  };

  void check_alive(const char* name) const;
  // Throws where collectives are refused.
  void begin_collective(const char* name);
  // `what`: "root", "destination", "source".
  void check_rank(const char* name, const char* what, std::int64_t rank) const;
  void check_count(const char* name, const char* what, std::size_t count, int expected) const;
  void check_times_size(const char* name, const at::Tensor& large, const at::Tensor& small) const;
  void check_splits(const char* what, const at::Tensor& tensor,
                    const std::vector<std::int64_t>& sizes) const;

  void gather_into(const char* name, const at::Tensor& output, const at::Tensor& input) const;
  void scatter_from(const char* name, const at::Tensor& output, const at::Tensor& input) const;

  // Counts it.
  WorkPtr done(const Done& what, TensorLists outputs);

  const c10::intrusive_ptr<FakeOptions> options_;
  const WireModel model_;
  WireCount traffic_;
  std::atomic<std::uint64_t> collectives_ = 0;
  std::atomic<bool> is_aborted_ = false;
};

// Throws c10::TypeError where the options are those of another backend.
c10::intrusive_ptr<c10d::Backend> make_fake_backend(const BackendRequest& request);
std::shared_ptr<const BackendTraits> fake_traits();

}  // namespace distrun::internal
