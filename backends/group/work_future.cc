#include "backends/group/work_future.h"

#include <mutex>
#include <set>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

// Kinds of works that throw when asked for their future, which is slow. A class may have futures
// for some operations only.
class FuturelessWorks {
 public:
  using Kind = std::pair<std::type_index, c10d::OpType>;

  bool has(const Kind& kind) const {
    const std::lock_guard lock(mutex_);
    return kinds_.contains(kind);
  }
  void add(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    kinds_.insert(kind);
  }

 private:
  mutable std::mutex mutex_;
  std::set<Kind> kinds_;
};

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work) {
  static auto* const futureless = new FuturelessWorks();
  const FuturelessWorks::Kind kind{typeid(work), work.retrieveOpType()};
  if (futureless->has(kind)) return {};
  try {
    return work.getFuture();
  } catch (const c10::Error&) {
    futureless->add(kind);
    return {};
  }
}

}  // namespace distrun::internal
