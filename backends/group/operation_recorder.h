// Records the collectives, sends and receives of this process where distrun launch reads them
// (common/operations/operation_writer.h): when each began and ended and, if asked, a digest of what
// it received.
//
// It sees every call that reaches a backend, also those of DDP and of LibTorch's own ProcessGroup:
// it stands in LibTorch's dispatcher, before the backends.  The ends of operations on a GPU are not
// recorded.  Without digests, the ends of operations without a future are not recorded either:
// Gloo's sends, receives and reduce_scatter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace distrun::internal {

// Call it before the default group is created.  `suffix` is appended to the names of groups from
// now on: the groups of two default groups have the same names, and must not be counted together.
//
// Does nothing if distrun does not read ($DISTRUN_OPERATIONS). $DISTRUN_DIGEST says which digests
// are recorded: "outputs", "all", or none.
void record_operations(const std::string& suffix);

// A collective of tensors on the CPU that does not pass the dispatcher.
struct DirectOperation {
  const char* op;  // torch.distributed's name: a literal, because addresses are compared.
  const c10d::ProcessGroup& group;
  const at::Tensor* output;  // Null: it has none.
  const at::Tensor* input;
  std::optional<int> root;  // Group rank.
};

// False if digests are recorded, which DirectRecord does not make.
bool can_record_directly();

// Records that the operation began. The destructor records that it ended. Both do nothing if
// operations are not recorded.
class DirectRecord {
 public:
  explicit DirectRecord(const DirectOperation& operation);
  ~DirectRecord();
  DirectRecord(const DirectRecord&) = delete;
  DirectRecord& operator=(const DirectRecord&) = delete;

 private:
  std::uint64_t number_ = 0;
};

}  // namespace distrun::internal
