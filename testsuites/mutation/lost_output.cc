#include "testsuites/mutation/lost_output.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace distrun {

at::Tensor copies_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.clone() : tensor;
}

TensorList copies_of(const TensorList& tensors) {
  TensorList copies;
  for (const auto& tensor : tensors) copies.push_back(copies_of(tensor));
  return copies;
}

TensorLists copies_of(const TensorLists& lists) {
  TensorLists copies;
  for (const auto& list : lists) copies.push_back(copies_of(list));
  return copies;
}

TensorLists lists_of(const at::Tensor& tensor) { return {{tensor}}; }
TensorLists lists_of(const TensorList& tensors) { return {tensors}; }
TensorLists lists_of(const TensorLists& lists) { return lists; }

namespace {

// Does not wrap a single list in another, like ProcessGroupGloo::AsyncWork.
c10::IValue value_of(const TensorLists& outputs) {
  return outputs.size() == 1 ? c10::IValue(outputs.front()) : c10::IValue(outputs);
}

c10::TypePtr type_of(const TensorLists& outputs) {
  const auto list = c10::ListType::create(c10::TensorType::get());
  return outputs.size() == 1 ? list : c10::ListType::create(list);
}

}  // namespace

LostOutput::LostOutput(c10::intrusive_ptr<c10d::Work> work, TensorLists outputs, Wait wait)
    : work_(std::move(work)), outputs_(std::move(outputs)), wait_(wait) {
  opType_ = work_->retrieveOpType();
}

bool LostOutput::isCompleted() { return is_dropped() || work_->isCompleted(); }
bool LostOutput::isSuccess() const { return is_dropped() || work_->isSuccess(); }
std::exception_ptr LostOutput::exception() const {
  return is_dropped() ? nullptr : work_->exception();
}
int LostOutput::sourceRank() const { return work_->sourceRank(); }
TensorList LostOutput::result() { return outputs_.empty() ? TensorList() : outputs_.front(); }
void LostOutput::synchronize() {
  if (!is_dropped()) work_->synchronize();
}
bool LostOutput::wait(std::chrono::milliseconds timeout) {
  return is_dropped() || work_->wait(timeout);
}
void LostOutput::abort() { work_->abort(); }
std::uint64_t LostOutput::getSequencenumber() const { return work_->getSequencenumber(); }

c10::intrusive_ptr<c10::ivalue::Future> LostOutput::getFuture() {
  if (!is_dropped()) {
    return work_->getFuture()->then(
        [outputs = outputs_](c10::ivalue::Future& done) {
          done.value();  // Throws if it failed.
          return value_of(outputs);
        },
        type_of(outputs_));
  }
  auto done = c10::make_intrusive<c10::ivalue::Future>(type_of(outputs_));
  done->markCompleted(value_of(outputs_));
  return done;
}

}  // namespace distrun
