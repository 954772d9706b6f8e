#include "parallel/optim/bucket_updates.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/variable.h>

#include "backends/group/group_state.h"
#include "backends/group/roll_call.h"
#include "common/deadline.h"
#include "parallel/ddp/flat_parts.h"
#include "parallel/optim/narrowed_groups.h"

namespace distrun::internal {

namespace {

// While it lives, grad() of each parameter is a part of a flat tensor.
class ReducedGradients {
 public:
  ReducedGradients(const std::vector<at::Tensor>& parameters, const at::Tensor& flat)
      : parameters_(parameters) {
    // Autograd must not know that the gradients are views.
    const at::AutoDispatchBelowADInplaceOrView no_views;
    gradients_ = parts_like(flat, parameters);
    swap();
  }
  ReducedGradients(const ReducedGradients&) = delete;
  ReducedGradients& operator=(const ReducedGradients&) = delete;
  ~ReducedGradients() { swap(); }

 private:
  void swap() {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      std::swap(parameters_[i].mutable_grad(), gradients_[i]);
    }
  }

  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> gradients_;
};

// Longer than a collective of the hook can take, so that it fails first, with its own error. After
// its timeout, it asks which ranks are missing.
std::chrono::milliseconds patience_of(const Group& group) {
  // deadline_after() treats more than a year as no timeout.
  const auto timeout =
      std::min<std::chrono::milliseconds>(state_of(group).timeout, std::chrono::hours(24 * 365));
  return 2 * timeout + 3 * kPatience;
}

// A hook of the user may never complete its future.
bool is_complete_within(std::chrono::milliseconds timeout, const Future& future) {
  struct Completion {
    std::mutex mutex;
    std::condition_variable condition;
    bool is_complete = false;
  };
  const auto completion = std::make_shared<Completion>();
  future->addCallback([completion](c10::ivalue::Future& /*done*/) {
    const std::lock_guard lock(completion->mutex);
    completion->is_complete = true;
    completion->condition.notify_all();
  });
  std::unique_lock lock(completion->mutex);
  return completion->condition.wait_until(lock, deadline_after(timeout),
                                          [&] { return completion->is_complete; });
}

}  // namespace

void BucketUpdates::add(ReducedBucket bucket) {
  for (const at::Tensor& one : bucket.parameters) missing_.erase(one.unsafeGetTensorImpl());
  futures_.push_back(bucket.gradients);
  waiting_.push_back(std::move(bucket));
}

void BucketUpdates::update_all_but(std::size_t count) {
  while (waiting_.size() > count && !waiting_.front().is_late) {
    const ReducedBucket bucket = std::move(waiting_.front());
    waiting_.pop_front();
    update(bucket);
  }
}

void BucketUpdates::update(const ReducedBucket& bucket) {
  if (!failure_.thrown) failure_ = failure_of([&] { update_own(bucket); });
  Shares to_send(static_cast<std::size_t>(zero_.ranks));
  for (const at::Tensor& one : bucket.parameters) {
    const auto place = zero_.groups.place_of(one);
    if (!place) continue;
    to_send[static_cast<std::size_t>(place->owner)].push_back(one);
    // LibTorch's optimizers change data(), and collectives receive, unseen by autograd. If the rest
    // of backward() needs the old value, it must fail on all ranks.
    if (used_.contains(one.unsafeGetTensorImpl())) torch::autograd::impl::bump_version(one);
  }
  sendings_.push_back(zero_.sync.start_in_place(to_send));
}

void BucketUpdates::update_own(const ReducedBucket& bucket) {
  torch::optim::Optimizer& optimizer = *zero_.optimizer;
  zero_.check_groups();
  // Even without own parameters: if a collective fails, those of later buckets fail after it.
  const at::Tensor flat = value_of(bucket.gradients);
  std::vector<std::vector<at::Tensor>> own(zero_.groups.size());
  bool has_own = false;
  for (const at::Tensor& one : bucket.parameters) {
    const auto place = zero_.groups.place_of(one);
    if (!place || place->owner != zero_.rank || !one.requires_grad()) continue;
    if (!used_.contains(one.unsafeGetTensorImpl())) continue;
    own[place->group].push_back(one);
    has_own = true;
  }
  if (!has_own) return;
  const ReducedGradients gradients(bucket.parameters, flat);
  const NarrowedGroups narrowed(optimizer, std::move(own));
  zero_.plain_step(nullptr);
}

at::Tensor BucketUpdates::value_of(const Future& gradients) {
  const std::chrono::milliseconds patience = patience_of(reducing_);
  is_overdue_ = !is_complete_within(patience, gradients);
  TORCH_CHECK(!is_overdue_, "hook_with_zero_step: the future of a bucket is not complete after ",
              patience.count(), " ms, much longer than the timeout of the group; ",
              is_finishing_
                  ? "the hook must complete every future, with an error if it fails"
                  : "a hook that completes it in the last bucket only cannot be interleaved");
  gradients->waitAndThrow();  // On a GPU, the current stream waits.
  return gradients->value().toTensor();
}

std::exception_ptr BucketUpdates::finish() {
  is_finishing_ = true;
  for (ReducedBucket& one : waiting_) one.is_late = false;
  bool has_failed = false;
  const bool reports = zero_.ranks > 1 && has_cpu_backend(zero_.group);
  try {
    update_all_but(0);
    for (ParameterSync::Sending& one : sendings_) one.finish();
    has_failed = reports ? has_any_rank_failed(failure_, /*hash=*/0, zero_.group)
                         : failure_.thrown != nullptr;
  } catch (...) {
    if (failure_.thrown) std::rethrow_exception(failure_.thrown);
    throw;
  }
  if (!has_failed) return nullptr;
  std::exception_ptr error =
      reports ? failure_of([&] { throw_failure_of_step(failure_, zero_.group); }).thrown
              : failure_.thrown;
  // The Reducer would wait for an incomplete future forever.
  const auto patience = is_overdue_ ? std::chrono::milliseconds(0) : patience_of(reducing_);
  for (const Future& one : futures_) {
    if (!is_complete_within(patience, one)) std::rethrow_exception(error);
  }
  return error;
}

}  // namespace distrun::internal
