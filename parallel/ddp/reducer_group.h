// The group for c10d::Reducer: errors in backward() name this rank, the parameters of the
// reduction, and what to do about uneven inputs.
//
//     auto named = c10::make_intrusive<ReducerGroup>(group, site);
//     … construct_reducer(…, named, …) …
//     named->set_names({{buffer.data_ptr(), "'w', 'b'"}});
//
// Thread safety: as the group.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/run_collective.h"

namespace distrun::internal {

class ReducerGroup : public c10d::ProcessGroup {
 public:
  // Shares the backends of `group`.
  ReducerGroup(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const CallSite& site);

  // The parameters of each bucket, by the bucket's memory. Not during backward().
  void set_names(std::map<const void*, std::string> names);

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;

 private:
  const ErrorsAt errors_;
  std::map<const void*, std::string> names_;
};

}  // namespace distrun::internal
