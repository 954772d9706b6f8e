#include "backends/gloo/gloo_traits.h"

#include "backends/gloo/byte_views.h"
#include "backends/gloo/gloo.h"
#include "backends/group/collective_checks.h"

namespace distrun::internal {

namespace {

bool is_bitwise(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::BAND || op == c10d::ReduceOp::BOR || op == c10d::ReduceOp::BXOR;
}

class GlooTraits : public BackendTraits {
 public:
  void check_options(const BackendOptions& options) const override { check_gloo_options(options); }

  void check_dtype(const CallSite& site, const Name& name,
                   const at::Tensor& tensor) const override {
    site.check(gloo_has(type_sent(tensor)), name, " has dtype ", tensor.scalar_type(),
               ", which gloo does not reduce; expected double, float, half, "
               "bfloat16, uint8, int8, int32, int64 or bool");
  }

  void check_operation(const CallSite& site, const at::Tensor& tensor,
                       const c10d::ReduceOp& op) const override {
    const auto type = type_sent(tensor);
    site.check(op != c10d::ReduceOp::PREMUL_SUM, "gloo has no PREMUL_SUM; expected SUM or AVG");
    site.check(!tensor.is_sparse() || op == c10d::ReduceOp::SUM, "gloo has no ", name_of(op),
               " of sparse tensors; expected SUM");
    site.check(op != c10d::ReduceOp::AVG || at::isFloatingType(type), "gloo has no AVG of ", type,
               "; expected SUM, or numbers of a floating type");
    site.check(!is_bitwise(op) || !at::isFloatingType(type), "gloo has no ", name_of(op), " of ",
               type, "; expected whole numbers or booleans");
  }

  void check_device(const CallSite& site, const Name& name,
                    const at::Tensor& tensor) const override {
    site.check(tensor.is_cpu(), name, " is on ", tensor.device(),
               "; gloo supports this operation only on the CPU");
  }

  bool has_uneven_all_to_all() const override { return false; }

  bool is_error(std::string_view text) const override { return is_gloo_error(text); }
  bool is_timeout(std::string_view text) const override { return is_gloo_timeout(text); }

  std::optional<int> lost_peer(c10d::Backend& backend, const std::string& error) const override {
    return peer_of_gloo_error(backend, error);
  }
};

}  // namespace

std::shared_ptr<const BackendTraits> gloo_traits() { return std::make_shared<GlooTraits>(); }

}  // namespace distrun::internal
