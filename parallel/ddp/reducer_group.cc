#include "parallel/ddp/reducer_group.h"

#include <exception>
#include <utility>

#include <ATen/core/ivalue.h>

#include "backends/group/forwarding_work.h"

namespace distrun::internal {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

struct Translation {
  ErrorsAt errors;
  std::string hint;

  [[noreturn]] void rethrow(const std::exception_ptr& error) const {
    std::rethrow_exception(errors.translated(error, hint));
  }
};

class TranslatedWork : public internal::ForwardingWork {
 public:
  TranslatedWork(WorkPtr work, Translation translation)
      : ForwardingWork(std::move(work)), translation_(std::move(translation)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      return ForwardingWork::wait(timeout);
    } catch (const std::exception&) {
      translation_.rethrow(std::current_exception());
    }
  }

  FuturePtr getFuture() override {
    const FuturePtr future = ForwardingWork::getFuture();
    return future->then(
        [translation = translation_](c10::ivalue::Future& done) {
          if (done.hasError()) translation.rethrow(done.exception_ptr());
          return done.value();
        },
        future->elementType());
  }

 private:
  const Translation translation_;
};

}  // namespace

ReducerGroup::ReducerGroup(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                           const CallSite& site)
    : ProcessGroup(group->getStore(), group->getRank(), group->getSize()), errors_(site) {
  setDefaultBackend(group->getBackendType());
  for (const c10::Device device : group->getDeviceTypes()) {
    const auto backend = group->getBackend(device.type());
    setBackend(device.type(), strToBackendType(backend->getBackendName()), backend);
  }
}

void ReducerGroup::set_names(std::map<const void*, std::string> names) {
  names_ = std::move(names);
}

WorkPtr ReducerGroup::allreduce(std::vector<at::Tensor>& tensors,
                                const c10d::AllreduceOptions& options) {
  Translation translation{errors_, ""};
  const bool has_memory = tensors.size() == 1 && tensors[0].layout() == at::kStrided;
  const auto found = has_memory ? names_.find(tensors[0].const_data_ptr()) : names_.end();
  if (found != names_.end()) translation.hint = "; it reduced the gradients of " + found->second;
  translation.hint +=
      "; if ranks have different numbers of inputs, train in a Join (distrun/join.h)";
  try {
    return c10::make_intrusive<TranslatedWork>(ProcessGroup::allreduce(tensors, options),
                                               translation);
  } catch (const std::exception&) {
    translation.rethrow(std::current_exception());
  }
}

}  // namespace distrun::internal
