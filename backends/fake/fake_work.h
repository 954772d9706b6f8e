// The work of an operation that is already complete.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun::internal {

// Its future's value is the same as Gloo's: the list of outputs, or of their lists. On a GPU, the
// creating thread's streams may still write; wait() makes the waiting thread's streams wait.
class FakeWork : public c10d::Work {
 public:
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  // `source` is the group rank of a received tensor's sender, or -1.
  FakeWork(int rank, c10d::OpType type, std::uint64_t number, int source, TensorLists outputs);

  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override { return number_; }
  std::vector<at::Tensor> result() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const std::uint64_t number_;
  const int source_;
  const TensorLists outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace distrun::internal
