// The work of an operation that is done when it is begun.  For the files of this folder.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun::internal {

// Its future has what Gloo's have: the list of the outputs, or of their lists where there are
// several.  Tensors on a GPU may still be written there by the streams of the thread that has made
// it: who waits has its own streams wait for those.
class FakeWork : public c10d::Work {
 public:
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  // `source`: the rank within the group that a tensor has come from; -1: none has.
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
