// An operation that runs on copies of its outputs, so that nothing reaches the caller.
//
//     auto copies = copies_of(outputs);
//     return c10::make_intrusive<LostOutput>(inner->allgather(copies, inputs), flat(outputs), …);
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun {

using TensorList = std::vector<at::Tensor>;
using TensorLists = std::vector<TensorList>;

at::Tensor copies_of(const at::Tensor& tensor);
TensorList copies_of(const TensorList& tensors);
TensorLists copies_of(const TensorLists& lists);

// The form in which a Work returns its results.
TensorLists lists_of(const at::Tensor& tensor);
TensorLists lists_of(const TensorList& tensors);
TensorLists lists_of(const TensorLists& lists);

// The Work of an operation on copies of `outputs`; its results are the caller's tensors.
class LostOutput : public c10d::Work {
 public:
  enum class Wait { kAsEver, kDropped };

  LostOutput(c10::intrusive_ptr<c10d::Work> work, TensorLists outputs, Wait wait);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  TensorList result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override;

 private:
  bool is_dropped() const { return wait_ == Wait::kDropped; }

  c10::intrusive_ptr<c10d::Work> work_;
  TensorLists outputs_;
  Wait wait_;
};

}  // namespace distrun
