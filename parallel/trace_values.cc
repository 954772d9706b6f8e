#include "parallel/trace_values.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const bool is_strided = tensor.layout() == at::kStrided && !tensor.is_nested();
  return is_strided && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

TraceValues::Layout TraceValues::Layout::of(const at::Tensor& tensor) {
  return {.dtype = tensor.scalar_type(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .is_conj = tensor.is_conj(),
          .is_neg = tensor.is_neg()};
}

void TraceValues::know(const at::Tensor& tensor, const Node* node) {
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                          Known{.tensor = decltype(Known::tensor)(tensor.getIntrusivePtr()),
                                .storage = storage_of(tensor),
                                .node = node,
                                .since = ++now_});
}

void TraceValues::set(const at::Tensor& tensor, const Node* node) {
  const bool was_known = known_.contains(tensor.unsafeGetTensorImpl());
  know(tensor, node);
  c10::StorageImpl* const storage = storage_of(tensor);
  if (storage == nullptr) return;

  // Of memory that is gone another may have the address: the weak pointer keeps it from that.
  const auto held = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  auto& values =
      in_memory_
          .try_emplace(storage, InMemory{.storage = decltype(InMemory::storage)(held),
                                         .is_constants = node->kind == Node::Kind::kGetAttr})
          .first->second.values;
  Layout layout = Layout::of(tensor);
  auto value = std::find_if(values.begin(), values.end(),
                            [&](const Value& one) { return one.layout == layout; });
  if (value == values.end()) value = values.insert(value, Value{.layout = std::move(layout)});
  value->node = node;
  if (!was_known) return;
  value->written_by = node;
  value->written_at = now_;
}

const Node* TraceValues::find(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  const auto known = known_.find(tensor.unsafeGetTensorImpl());
  const bool is_known = known != known_.end() && known->second.storage == storage;
  const auto found = in_memory_.find(storage);
  if (found == in_memory_.end()) return is_known ? known->second.node : nullptr;

  const auto& values = found->second.values;
  const Layout layout = Layout::of(tensor);
  const auto same = std::find_if(values.begin(), values.end(),
                                 [&](const Value& one) { return one.layout == layout; });
  if (is_known) {
    const bool is_newer = same != values.end() && same->written_at > known->second.since;
    return is_newer ? same->written_by : known->second.node;
  }
  if (same != values.end()) {
    know(tensor, same->node);
    return same->node;
  }
  if (found->second.is_constants) return nullptr;  // This tensor is from outside, too.
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "trace: a tensor of sizes ", tensor.sizes(), " and strides ", tensor.strides(),
      " shares memory with %", values.front().node->name,
      ", and no operator has made it of that; expected a view made by an operator, as view() is");
  return nullptr;
}

}  // namespace distrun::internal
