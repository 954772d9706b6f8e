// TraceValues maps tensors to values of a graph.
//
//     values.set(sum, node);
//     values.find(sum);              // node
//     values.find(sum.data());       // node, too: another tensor with the same elements in memory
//     values.set(sum.data(), wait);  // A known tensor was written:
//     values.find(sum);              // wait
//
// Autograd creates new tensors for those that it saved, so an unknown tensor is found by its
// memory. Its layout can change separately from the value's, so own() distinguishes the two.
//
// Keeps no tensor alive, and does not mistake a new tensor for a freed one.
#pragma once

#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include "distrun/trace_graph.h"

namespace distrun::internal {

class TraceValues {
 public:
  void set(const at::Tensor& tensor, const Node* node);

  // Null for a tensor that is not a value and shares memory with none, or only with a constant.
  // Throws if it shares a value's memory with another layout: no operator returned it.
  const Node* find(const at::Tensor& tensor);

  // The node whose value is this very tensor, or null. For operators that change a layout, such as
  // t_().
  const Node* own(const at::Tensor& tensor) const;
  void set_own(const at::Tensor& tensor, const Node* node) { know(tensor, node, node); }
  // Call it before the layout changes: the old one must no longer identify the value.
  void lose_layout(const at::Tensor& tensor);

 private:
  struct Layout {
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool is_conj = false, is_neg = false;

    // Requires a tensor with storage.
    static Layout of(const at::Tensor& tensor);
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  struct Known {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    const c10::StorageImpl* storage;
    Layout layout;
    const Node* node;
    const Node* own;  // Null if only its memory is known.
    std::int64_t since;
  };
  // The value of all tensors with one layout in one memory.
  struct Value {
    Layout layout;
    const Node* node;                  // The last.
    const Node* written_by = nullptr;  // The last that wrote to a known tensor.
    std::int64_t written_at = 0;
  };
  struct InMemory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    bool is_constants;          // Its content is from outside the trace.
    std::vector<Value> values;  // Each has another layout.
  };

  void know(const at::Tensor& tensor, const Node* node, const Node* own);
  // Null if the tensor is unknown, or if its memory or layout changed without an operator, as by
  // set_data().
  const Known* known(const at::Tensor& tensor) const;
  Value* value_in(const c10::StorageImpl* storage, const Layout& layout);

  std::unordered_map<const c10::TensorImpl*, Known> known_;
  std::unordered_map<const c10::StorageImpl*, InMemory> in_memory_;
  std::int64_t now_ = 0;  // Counts the calls of know().
};

// Null if the elements are not in one memory, as in sparse tensors.
c10::StorageImpl* storage_of(const at::Tensor& tensor);

// Whether the bytes from first to last element overlap.
bool share_memory(const at::Tensor& a, const at::Tensor& b);

}  // namespace distrun::internal
