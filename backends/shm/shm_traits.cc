#include "backends/shm/shm_traits.h"

#include "backends/group/collective_checks.h"
#include "backends/shm/shm_tensors.h"

namespace distrun::internal {

void ShmTraits::check_operation(const CallSite& site, const at::Tensor& tensor,
                                const c10d::ReduceOp& op) const {
  if (tensor.is_sparse()) {
    site.check(op == c10d::ReduceOp::SUM, "shm has no ", name_of(op),
               " of sparse tensors; expected SUM");
    return;
  }
  site.check(op != c10d::ReduceOp::PREMUL_SUM, "shm has no PREMUL_SUM; expected SUM or AVG");
  site.check(shm::find_reducing(tensor, op).has_value(), "shm has no ", name_of(op), " of ",
             tensor.scalar_type());
}

void ShmTraits::check_device(const CallSite& site, const Name& name,
                             const at::Tensor& tensor) const {
  site.check(tensor.is_cpu(), name, " is on ", tensor.device(), "; shm supports only the CPU");
}

}  // namespace distrun::internal
