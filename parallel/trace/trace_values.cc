#include "parallel/trace/trace_values.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const bool is_strided = tensor.layout() == at::kStrided && !tensor.is_nested();
  return is_strided && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

namespace {

// Its first byte in the storage, and the byte after its last.
std::pair<std::int64_t, std::int64_t> extent_of(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  return {tensor.storage_offset() * bytes, (last + 1) * bytes};
}

}  // namespace

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  if (storage_of(a) == nullptr || storage_of(a) != storage_of(b)) return false;
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [from, to] = extent_of(a);
  const auto [other_from, other_to] = extent_of(b);
  return from < other_to && other_from < to;
}

TraceValues::Layout TraceValues::Layout::of(const at::Tensor& tensor) {
  return {.dtype = tensor.scalar_type(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .is_conj = tensor.is_conj(),
          .is_neg = tensor.is_neg()};
}

void TraceValues::know(const at::Tensor& tensor, const Node* node, const Node* own) {
  c10::StorageImpl* const storage = storage_of(tensor);
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                          Known{.tensor = decltype(Known::tensor)(tensor.getIntrusivePtr()),
                                .storage = storage,
                                .layout = storage == nullptr ? Layout() : Layout::of(tensor),
                                .node = node,
                                .own = own,
                                .since = ++now_});
}

const TraceValues::Known* TraceValues::known(const at::Tensor& tensor) const {
  const c10::StorageImpl* const storage = storage_of(tensor);
  const auto found = known_.find(tensor.unsafeGetTensorImpl());
  if (found == known_.end() || found->second.storage != storage) return nullptr;
  const bool is_same = storage == nullptr || found->second.layout == Layout::of(tensor);
  return is_same ? &found->second : nullptr;
}

TraceValues::Value* TraceValues::value_in(const c10::StorageImpl* storage, const Layout& layout) {
  const auto found = in_memory_.find(storage);
  if (found == in_memory_.end()) return nullptr;
  auto& values = found->second.values;
  const auto same = std::find_if(values.begin(), values.end(),
                                 [&](const Value& one) { return one.layout == layout; });
  return same == values.end() ? nullptr : &*same;
}

void TraceValues::set(const at::Tensor& tensor, const Node* node) {
  const auto before = known_.find(tensor.unsafeGetTensorImpl());
  const bool was_known = before != known_.end();
  const Node* own = node;
  if (was_known) {
    // The operator was recorded on another tensor with the same elements, so `own` stays.
    const Known& its = before->second;
    const Value* const value = value_in(its.storage, its.layout);
    const bool is_newer = value != nullptr && value->written_at > its.since;
    if (is_newer || its.own != its.node) own = its.own;
  }
  know(tensor, node, own);
  c10::StorageImpl* const storage = storage_of(tensor);
  if (storage == nullptr) return;

  // The weak pointer keeps the address of freed memory from being reused.
  const auto held = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
  auto& values =
      in_memory_
          .try_emplace(storage, InMemory{.storage = decltype(InMemory::storage)(held),
                                         .is_constants = node->kind == Node::Kind::kGetAttr})
          .first->second.values;
  Layout layout = Layout::of(tensor);
  Value* value = value_in(storage, layout);
  if (value == nullptr) value = &values.emplace_back(Value{.layout = std::move(layout)});
  value->node = node;
  if (!was_known) return;
  value->written_by = node;
  value->written_at = now_;
}

const Node* TraceValues::find(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  const Known* const its = known(tensor);
  const auto found = in_memory_.find(storage);
  if (found == in_memory_.end()) return its == nullptr ? nullptr : its->node;

  const Value* const same = value_in(storage, Layout::of(tensor));
  if (its != nullptr && its->own != nullptr) {
    if (same == nullptr) return its->own;
    return same->written_at > its->since ? same->written_by : its->node;
  }
  if (same != nullptr) {
    if (its == nullptr) know(tensor, same->node, nullptr);
    return same->node;
  }
  if (found->second.is_constants) return nullptr;  // This tensor is from outside, too.
  TORCH_CHECK_NOT_IMPLEMENTED(false, "trace: a tensor of sizes ", tensor.sizes(), " and strides ",
                              tensor.strides(),
                              " shares memory with a value of the trace, but no operator created "
                              "it from that value; use a view operator such as view()");
  return nullptr;
}

const Node* TraceValues::own(const at::Tensor& tensor) const {
  const Known* const its = known(tensor);
  return its == nullptr ? nullptr : its->own;
}

void TraceValues::lose_layout(const at::Tensor& tensor) {
  const Known* const its = known(tensor);
  if (its == nullptr || its->storage == nullptr) return;
  std::erase_if(in_memory_.at(its->storage).values, [&](const Value& one) {
    return one.layout == its->layout && (one.node == its->own || one.node == its->node);
  });
}

}  // namespace distrun::internal
