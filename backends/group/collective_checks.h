// What a rank can see to be wrong with the arguments of a collective, before anything is sent.  For
// the files of this folder, and for those above that make collectives.
//
//     const CallSite site{"all_gather", options.group};
//     check_tensor(site, "tensor", tensor);
//     check_list(site, "tensors", tensors, site.size());
//
// Each throws c10::ValueError: "all_gather on rank 1: tensors has 3 tensors; expected 4, …".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "backends/group/backend_traits.h"
#include "distrun/group.h"
#include "distrun/process_group.h"

namespace distrun::internal {

struct CallSite {
  const char* function;
  const Group& group;
  std::optional<int> peer = std::nullopt;  // Of send and recv: the other rank, of the group.

  int size() const { return get_world_size(group); }
  int rank() const { return get_rank(group); }

  template <class... Text>
  void check(bool holds, const Text&... text) const {
    TORCH_CHECK_VALUE(holds, function, " on rank ", get_rank(), ": ", text...);
  }
};

// What a tensor is called in messages: "tensor", "tensors[3]", "lists[0][3]".  It becomes text
// where it is printed, and only there.
class Name {
 public:
  Name(const char* text) : text_(text) {}  // NOLINT: is written "tensor".
  Name operator[](std::size_t index) const {
    Name element = *this;
    element.indices_[element.depth_++] = index;
    return element;
  }
  friend std::ostream& operator<<(std::ostream& out, const Name& name) {
    out << name.text_;
    for (std::size_t i = 0; i < name.depth_; ++i) out << "[" << name.indices_[i] << "]";
    return out;
  }

 private:
  const char* text_;
  std::array<std::size_t, 2> indices_{};
  std::size_t depth_ = 0;
};

// Printed, the group's name and ranks.
struct Described {
  const Group& group;
};
std::ostream& operator<<(std::ostream& out, const Described& what);

// The number that `rank` has within the group.  Throws, naming the function and this rank, where it
// is not in the group.
int group_rank_of(const char* function, const Group& group, const AnyRank& rank);

// Its elements; of a complex tensor the parts.
std::int64_t numel_sent(const at::Tensor& tensor);

// The dtype in which it is sent.  A complex number is sent as its two parts, and may meet them.
at::ScalarType type_sent(const at::Tensor& tensor);

// Of the group's backend for the tensor's device.
const BackendTraits& traits_for(const CallSite& site, const at::Tensor& tensor);

enum class Layout { kDense, kDenseOrSparse };

// What is reduced: there is one, and the group has a backend for where it lies, which reduces its
// dtype.
void check_tensor(const CallSite& site, const Name& name, const at::Tensor& tensor,
                  Layout layout = Layout::kDense);

// The same, of any dtype: for what only moves tensors.
void check_movable(const CallSite& site, const Name& name, const at::Tensor& tensor,
                   Layout layout = Layout::kDense);

// check_movable() for each, and `count` of them: one for each rank of the group.
void check_list(const CallSite& site, const Name& name, const std::vector<at::Tensor>& tensors,
                int count);

// Of the same dtype, on the same device.  A complex dtype and that of its parts are the same.
void check_like(const CallSite& site, const Name& name, const at::Tensor& tensor,
                const Name& other_name, const at::Tensor& other);
// And of as many elements: `times` as many.
void check_numel(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other, std::int64_t times = 1);

// And of the same sizes.
void check_sizes(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other);

// "SUM"
const char* name_of(const c10d::ReduceOp& op);

// The operation has a meaning for numbers of that type, and the backend has it.
void check_operation(const CallSite& site, const at::Tensor& tensor, const c10d::ReduceOp& op);

// The backend does point to point and coalesced operations on the tensor's device.
void check_device(const CallSite& site, const Name& name, const at::Tensor& tensor);

// What all_to_all_single divides among the ranks: evenly where there are no sizes.
void check_splits(const CallSite& site, const Name& name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& sizes);
// This rank's part of the one goes into that of the other.
void check_own_part(const CallSite& site, const at::Tensor& output,
                    const std::vector<std::int64_t>& output_sizes, const at::Tensor& input,
                    const std::vector<std::int64_t>& input_sizes);

}  // namespace distrun::internal
