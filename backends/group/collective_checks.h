// Checks of a collective's arguments that a rank can make before it sends anything.
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
  std::optional<int> peer = std::nullopt;  // The peer's group rank, for send and recv.

  int size() const { return get_world_size(group); }
  int rank() const { return get_rank(group); }

  template <class... Text>
  void check(bool holds, const Text&... text) const {
    TORCH_CHECK_VALUE(holds, function, " on rank ", get_rank(), ": ", text...);
  }
};

// The name of a tensor in messages: "tensor", "tensors[3]", "lists[0][3]". Formatted only when
// printed.
class Name {
 public:
  Name(const char* text) : text_(text) {}  // NOLINT: implicit, for literals.
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

// Prints the group's name and ranks.
struct Described {
  const Group& group;
};
std::ostream& operator<<(std::ostream& out, const Described& what);

// Returns the group rank of `rank`. Throws if it is not in the group.
int group_rank_of(const char* function, const Group& group, const AnyRank& rank);

// The group rank of the other end of a send or receive. Throws if it is not in the group, or this
// rank.
int peer_of(const CallSite& site, const AnyRank& rank);

// Requires that another rank exists.
void check_has_peer(const CallSite& site);

// Requires a tag of at least 0.
void check_tag(const CallSite& site, int tag);

bool has_cpu_backend(const c10d::ProcessGroup& group);

// A complex element counts as two.
std::int64_t numel_sent(const at::Tensor& tensor);

// The dtype on the network. Complex numbers are sent, and may be received, as pairs of real ones.
at::ScalarType type_sent(const at::Tensor& tensor);

// The traits of the group's backend for the tensor's device.
const BackendTraits& traits_for(const CallSite& site, const at::Tensor& tensor);

enum class Layout { kDense, kDenseOrSparse };

// Requires a tensor to reduce: defined, with a dtype that the group's backend for its device
// reduces.
void check_tensor(const CallSite& site, const Name& name, const at::Tensor& tensor,
                  Layout layout = Layout::kDense);

// Requires a tensor to move: the same, with any dtype.
void check_movable(const CallSite& site, const Name& name, const at::Tensor& tensor,
                   Layout layout = Layout::kDense);

// Requires one tensor per rank of the group, and check_movable() for each.
void check_list(const CallSite& site, const Name& name, const std::vector<at::Tensor>& tensors,
                int count);

// Requires the same dtype and device.  A complex dtype equals that of its parts.
void check_like(const CallSite& site, const Name& name, const at::Tensor& tensor,
                const Name& other_name, const at::Tensor& other);
// Requires `times` as many elements.
void check_numel(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other, std::int64_t times = 1);

void check_sizes(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other);

// "SUM"
const char* name_of(const c10d::ReduceOp& op);

// Requires an operation that is defined for the dtype and supported by the backend.
void check_operation(const CallSite& site, const at::Tensor& tensor, const c10d::ReduceOp& op);

// Requires that the backend supports point to point and coalesced operations on the device.
void check_device(const CallSite& site, const Name& name, const at::Tensor& tensor);

// Checks the split sizes of all_to_all_single. Without sizes, parts are equal.
void check_splits(const CallSite& site, const Name& name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& sizes);
// Requires that this rank's part of the input fits its part of the output.
void check_own_part(const CallSite& site, const at::Tensor& output,
                    const std::vector<std::int64_t>& output_sizes, const at::Tensor& input,
                    const std::vector<std::int64_t>& input_sizes);

}  // namespace distrun::internal
