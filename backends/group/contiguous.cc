#include "backends/group/contiguous.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "backends/group/begun_collective.h"
#include "backends/group/work_future.h"

namespace distrun::internal {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// Copies bypass autograd, like a backend's writes, and run on any thread.
using PastAutograd = at::AutoDispatchBelowADInplaceOrView;

// False for sparse tensors.
bool is_strided(const at::Tensor& tensor) { return tensor.layout() == at::kStrided; }

// Records the write for autograd, which does not see writes by backends.
void set_changed(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor plain(const at::Tensor& tensor) {
  const PastAutograd guard;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor as_sent(const at::Tensor& tensor, Sizes sizes) {
  const at::Tensor parts = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  return sizes == Sizes::kFlat ? parts.view({parts.numel()}) : parts;
}

at::Tensor original_of(const at::Tensor& tensor, const std::vector<CopyBack>& copies) {
  for (const CopyBack& copy : copies) {
    if (copy.sent.is_same(tensor)) return copy.to;
  }
  return tensor;
}

// `value` may be a tensor, a list of tensors, or a list of such lists.
c10::IValue with_originals(const c10::IValue& value, const std::vector<CopyBack>& copies) {
  if (value.isTensor()) return original_of(value.toTensor(), copies);
  if (!value.isList()) return value;
  auto list = value.toList().copy();
  for (std::size_t i = 0; i < list.size(); ++i) list.set(i, with_originals(list.get(i), copies));
  return list;
}

void copy_back(const std::vector<CopyBack>& copies) {
  const PastAutograd guard;
  for (const CopyBack& copy : copies) {
    if (!copy.from.defined()) continue;
    copy.to.copy_(copy.from);
    if (copy.to.is_cpu()) continue;
    // No other thread waits for this thread's stream.
    const c10::impl::VirtualGuardImpl device(copy.to.device().type());
    device.synchronizeStream(device.getStream(copy.to.device()));
  }
}

class CopiedBack : public c10d::Work {
 public:
  CopiedBack(WorkPtr work, const FuturePtr& ended, std::vector<CopyBack> copies)
      : work_(std::move(work)), copies_(std::move(copies)) {
    future_ = ended->then(
        [copies = copies_](c10::ivalue::Future& its) {
          const c10::IValue value = its.value();  // Throws if it is an error.
          copy_back(copies);
          return with_originals(value, copies);
        },
        ended->elementType());
  }

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override {
    return future_->completed() && future_->hasError() ? future_->exception_ptr() : nullptr;
  }
  int sourceRank() const override { return work_->sourceRank(); }
  std::uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    const bool done = work_->wait(timeout);
    future_->wait();
    if (future_->hasError()) std::rethrow_exception(future_->exception_ptr());
    return done;
  }

  std::vector<at::Tensor> result() override {
    // Gloo completes the future a moment before the work, whose result is not set until then.
    if (future_->completed()) work_->wait();
    std::vector<at::Tensor> all = work_->result();
    for (at::Tensor& one : all) one = original_of(one, copies_);
    return all;
  }

  FuturePtr getFuture() override { return future_; }

 private:
  const WorkPtr work_;
  const std::vector<CopyBack> copies_;
  FuturePtr future_;
};

bool is_receive(c10d::OpType type) {
  return type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

class WaitedOnce : public c10d::Work {
 public:
  // `ended` is the work's future, or null if it has none.
  WaitedOnce(WorkPtr work, FuturePtr ended, std::vector<CopyBack> copies)
      : work_(std::move(work)), ended_(std::move(ended)), copies_(std::move(copies)) {
    if (ended_) future_ = c10::make_intrusive<c10::ivalue::Future>(ended_->elementType());
  }

  bool isCompleted() override {
    const WorkPtr work = under_way();
    if (!work) return true;
    if (!work->isCompleted()) return false;
    if (ended_) end_quietly();  // The caller may now read the outputs.
    return true;
  }
  int sourceRank() const override { return source_rank_; }

  bool wait(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(waiting_, std::defer_lock);
    if (timeout.count() <= 0) {
      lock.lock();
    } else {
      TORCH_CHECK_WITH(DistBackendError, lock.try_lock_for(timeout), "Timed out after ",
                       timeout.count(), "ms: another thread is waiting for this work");
    }
    if (const WorkPtr work = under_way()) end(*work, timeout);
    if (const auto error = exception()) std::rethrow_exception(error);
    return true;
  }

  std::vector<at::Tensor> result() override {
    if (!ended_) return Work::result();
    wait(std::chrono::milliseconds::zero());
    return results_;
  }

  FuturePtr getFuture() override {
    if (!ended_) return Work::getFuture();
    end_quietly();
    return future_;
  }

 private:
  void end_quietly() {
    try {
      wait(std::chrono::milliseconds::zero());
    } catch (const std::exception&) {
      // exception() and the future report it.
    }
  }

  WorkPtr under_way() const {
    const std::lock_guard lock(mutex_);
    return work_;
  }

  void end(c10d::Work& work, std::chrono::milliseconds timeout) {
    std::exception_ptr error;
    try {
      TORCH_CHECK(work.wait(timeout), "the operation has been aborted");
      if (is_receive(work.retrieveOpType())) source_rank_ = work.sourceRank();
      copy_back(copies_);
      if (ended_) keep_results(work);
    } catch (...) {
      error = std::current_exception();
    }
    if (future_ && error) future_->setError(error);
    copies_.clear();
    finish(error);
    const std::lock_guard lock(mutex_);
    work_.reset();
  }

  void keep_results(c10d::Work& work) {
    results_ = work.result();
    for (at::Tensor& one : results_) one = original_of(one, copies_);
    ended_->wait();
    future_->markCompleted(with_originals(ended_->value(), copies_));
  }

  std::timed_mutex waiting_;
  WorkPtr work_;  // Null: it has ended.
  const FuturePtr ended_;
  std::vector<CopyBack> copies_;
  FuturePtr future_;  // Completed by wait().
  Tensors results_;
  std::atomic<int> source_rank_ = -1;
};

}  // namespace

WorkPtr copy_back_after(const WorkPtr& work, std::vector<CopyBack> copies) {
  if (!work) return work;
  const BegunCollective* const begun = as_begun_collective(*work);
  if (begun == nullptr && copies.empty() &&
      dynamic_cast<const AlwaysHasFuture*>(work.get()) != nullptr) {
    return work;
  }
  const FuturePtr ended = future_of(begun == nullptr ? *work : *begun->work());
  const bool is_copied = std::any_of(copies.begin(), copies.end(),
                                     [](const CopyBack& one) { return one.from.defined(); });
  // The listener must see the copies, so the waiting thread makes them.
  if (!ended || (begun != nullptr && is_copied)) {
    Tensors outputs;
    for (const CopyBack& copy : copies) outputs.push_back(copy.to);
    WorkPtr waited = c10::make_intrusive<WaitedOnce>(work, ended, std::move(copies));
    if (begun != nullptr) begun->listener().ends_by(waited, std::move(outputs));
    return waited;
  }
  if (copies.empty()) return work;
  return c10::make_intrusive<CopiedBack>(work, ended, std::move(copies));
}

bool has_no_future(const c10d::Work& work) {
  return dynamic_cast<const WaitedOnce*>(&work) != nullptr;
}

bool takes_first_timeout(c10d::Work& work) {
  if (has_no_future(work)) return true;
  const BegunCollective* const begun = as_begun_collective(work);
  return !future_of(begun == nullptr ? work : *begun->work());
}

at::Tensor Contiguous::input(const at::Tensor& tensor, Sizes sizes) {
  return is_strided(tensor) ? as_sent(is_plain(tensor) ? tensor : plain(tensor), sizes) : tensor;
}

std::vector<at::Tensor> Contiguous::inputs(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  all.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) all.push_back(input(tensor));
  return all;
}

at::Tensor Contiguous::output(const Name& name, const at::Tensor& tensor, Sizes sizes) {
  at::Tensor sent = as_output(name, tensor, sizes);
  set_changed(tensor);
  return sent;
}

at::Tensor Contiguous::unchanged_output(const Name& name, const at::Tensor& tensor) {
  return as_output(name, tensor, Sizes::kOwn);
}

at::Tensor Contiguous::as_output(const Name& name, const at::Tensor& tensor, Sizes sizes) {
  if (!is_strided(tensor)) return tensor;
  check_writable(name, tensor);
  const at::Tensor copy = is_plain(tensor) ? at::Tensor() : plain(tensor);
  at::Tensor sent = as_sent(copy.defined() ? copy : tensor, sizes);
  if (!sent.is_same(tensor)) copies_.push_back({.to = tensor, .sent = sent, .from = copy});
  return sent;
}

void Contiguous::output_in(const at::Tensor& place, const Name& name, const at::Tensor& tensor) {
  check_writable(name, tensor);
  set_changed(tensor);
  auto sizes = tensor.sizes().vec();
  if (tensor.is_complex()) sizes.push_back(2);
  const at::Tensor numbers = place.view(sizes);
  copies_.push_back({.to = tensor,
                     .sent = place,
                     .from = tensor.is_complex() ? at::view_as_complex(numbers) : numbers});
}

void Contiguous::check_writable(const Name& name, const at::Tensor& tensor) const {
  site_.check(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, name,
              " has elements that share memory (sizes ", tensor.sizes(), ", strides ",
              tensor.strides(), "); expected a tensor that can be written to: clone() it");
}

std::vector<at::Tensor> Contiguous::outputs(const Name& name,
                                            const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < tensors.size(); ++i) all.push_back(output(name[i], tensors[i]));
  return all;
}

}  // namespace distrun::internal
