#include "backends/group/work_future.h"

#include <map>
#include <mutex>
#include <optional>
#include <typeindex>
#include <typeinfo>
#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

// Whether works of a kind have a future: some throw when asked for it, which is slow. A class may
// have futures for some operations only.
class FutureByKind {
 public:
  using Kind = std::pair<std::type_index, c10d::OpType>;

  std::optional<bool> of(const Kind& kind) const {
    const std::lock_guard lock(mutex_);
    const auto found = kinds_.find(kind);
    return found == kinds_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(const Kind& kind, bool has_future) {
    const std::lock_guard lock(mutex_);
    kinds_.insert_or_assign(kind, has_future);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Kind, bool> kinds_;
};

FutureByKind& future_by_kind() {
  static auto* const known = new FutureByKind();
  return *known;
}

FutureByKind::Kind kind_of(const c10d::Work& work) { return {typeid(work), work.retrieveOpType()}; }

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work) {
  const FutureByKind::Kind kind = kind_of(work);
  if (future_by_kind().of(kind) == false) return {};
  try {
    auto future = work.getFuture();
    if (future) future_by_kind().add(kind, true);
    return future;
  } catch (const c10::Error&) {
    future_by_kind().add(kind, false);
    return {};
  }
}

bool is_known_to_have_future(const c10d::Work& work) {
  return future_by_kind().of(kind_of(work)) == true;
}

}  // namespace distrun::internal
