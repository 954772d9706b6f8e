// What backends/group/ asks about the backend shm.
#pragma once

#include "backends/group/backend_traits.h"

namespace distrun::internal {

class ShmTraits : public BackendTraits {
 public:
  void check_operation(const CallSite& site, const at::Tensor& tensor,
                       const c10d::ReduceOp& op) const override;
  void check_device(const CallSite& site, const Name& name,
                    const at::Tensor& tensor) const override;
};

}  // namespace distrun::internal
