// TraceValues finds the value of a graph that a tensor has.
//
//     values.set(sum, node);
//     values.find(sum);              // node
//     values.find(sum.data());       // node, too: another tensor with the same elements in memory
//     values.set(sum.data(), wait);  // A known tensor was written:
//     values.find(sum);              // wait
//
// Autograd creates new tensors for those that it saved, without notice.  So a tensor that is not
// known itself is found by its memory.  It shares its elements with the value, but can have another
// layout: own() tells the two apart.  For the files of this folder.
//
// Keeps no tensor alive.  A freed tensor is forgotten, and a new one in its memory is not mistaken
// for it.
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
  // Makes `tensor` the value of `node`.
  void set(const at::Tensor& tensor, const Node* node);

  // None: the tensor is not a value of the graph and shares no memory with one.  Throws if it
  // shares memory with a value and has another layout, which no operator does.
  const Node* find(const at::Tensor& tensor);

  // For operators that change the layout of a tensor, such as t_().  The node whose value is this
  // very tensor; none if only its memory is known.
  const Node* own(const at::Tensor& tensor) const;
  void set_own(const at::Tensor& tensor, const Node* node) { know(tensor, node, node); }
  // Before its layout changes: other tensors are no longer found by this memory and layout.
  void lose_layout(const at::Tensor& tensor);

 private:
  // The layout of a tensor in its memory.
  struct Layout {
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool is_conj = false, is_neg = false;

    // No strides if its elements are not in one memory.
    static Layout of(const at::Tensor& tensor);
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  struct Known {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    const c10::StorageImpl* storage;
    Layout layout;
    const Node* node;
    const Node* own;  // None: only its memory is known.
    std::int64_t since;
  };
  // The value of all tensors of one layout in one memory.
  struct Value {
    Layout layout;
    const Node* node;                  // The newest.
    const Node* written_by = nullptr;  // The newest that was known before a write.
    std::int64_t written_at = 0;
  };
  struct InMemory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    bool is_constants;          // Its content is from outside the trace.
    std::vector<Value> values;  // Each with another layout.
  };

  void know(const at::Tensor& tensor, const Node* node, const Node* own);
  // None: it is not known, or has other memory than before, because set_data() is not an operator.
  const Known* known(const at::Tensor& tensor) const;
  // None: no known tensor has this layout.
  Value* value_in(const c10::StorageImpl* storage, const Layout& layout);

  std::unordered_map<const c10::TensorImpl*, Known> known_;
  std::unordered_map<const c10::StorageImpl*, InMemory> in_memory_;
  std::int64_t now_ = 0;  // Counts the calls of know().
};

// None: its elements are not in one memory, as those of sparse and nested tensors.
c10::StorageImpl* storage_of(const at::Tensor& tensor);

// Both span the same bytes from the first element to the last.
bool share_memory(const at::Tensor& a, const at::Tensor& b);

}  // namespace distrun::internal
