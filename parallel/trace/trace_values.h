// TraceValues says which value of a graph a tensor is.
//
//     values.set(sum, node);
//     values.find(sum);              // node
//     values.find(sum.data());       // node, too: another tensor with the same elements in memory
//     values.set(sum.data(), wait);  // A tensor that was known has been written to:
//     values.find(sum);              // wait
//
// Autograd makes tensors anew that it has saved, and nothing tells of that; so what is not known by
// itself is known by its memory.  Such a tensor shares its elements with the value, but not how
// they are laid out: own() tells it apart.  For the files of this folder.
//
// Holds no tensor: one that is gone is forgotten, and none is taken for another that has its place.
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
  // From now on `tensor` is the value of `node`.
  void set(const at::Tensor& tensor, const Node* node);

  // None: it is no value of the graph, and has its memory for itself.  Throws where it shares
  // memory with one, and is laid out otherwise: that is no operator's doing.
  const Node* find(const at::Tensor& tensor);

  // For operators that change how a tensor lies in its memory, as t_() does.  The node whose value
  // is this very tensor; none: it is known by its memory.
  const Node* own(const at::Tensor& tensor) const;
  void set_own(const at::Tensor& tensor, const Node* node) { know(tensor, node, node); }
  // It is going to be laid out otherwise: none is known by having its memory and layout.
  void lose_layout(const at::Tensor& tensor);

 private:
  // How a tensor lies in its memory.
  struct Layout {
    c10::ScalarType dtype = c10::ScalarType::Undefined;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    bool is_conj = false, is_neg = false;

    // None of its strides where its elements do not lie in one memory.
    static Layout of(const at::Tensor& tensor);
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  struct Known {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    const c10::StorageImpl* storage;
    Layout layout;
    const Node* node;
    const Node* own;  // None: it is known by its memory.
    std::int64_t since;
  };
  // The value of all tensors of one layout in one memory.
  struct Value {
    Layout layout;
    const Node* node;                  // The newest.
    const Node* written_by = nullptr;  // The newest that was known before: it was written to.
    std::int64_t written_at = 0;
  };
  struct InMemory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    bool is_constants;          // What lies in it comes from outside of the trace.
    std::vector<Value> values;  // Each of another layout.
  };

  void know(const at::Tensor& tensor, const Node* node, const Node* own);
  // None: it is not known, or lies elsewhere than it did: set_data() is no operator.
  const Known* known(const at::Tensor& tensor) const;
  // None: no tensor is known that lies so.
  Value* value_in(const c10::StorageImpl* storage, const Layout& layout);

  std::unordered_map<const c10::TensorImpl*, Known> known_;
  std::unordered_map<const c10::StorageImpl*, InMemory> in_memory_;
  std::int64_t now_ = 0;  // Counts the calls of know().
};

// None: its elements are not laid out in one, as those of sparse and nested tensors.
c10::StorageImpl* storage_of(const at::Tensor& tensor);

// The bytes from the first element to the last of one are also those of the other.
bool share_memory(const at::Tensor& a, const at::Tensor& b);

}  // namespace distrun::internal
