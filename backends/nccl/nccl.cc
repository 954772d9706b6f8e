#include "backends/nccl/nccl.h"

#include <cstdlib>
#include <utility>

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "backends/group/collective_checks.h"
#include "backends/nccl/split_color.h"
#include "common/text/parse_number.h"
#include "distrun/nccl_options.h"

namespace distrun::internal {

namespace {

using c10d::ProcessGroupNCCL;
using Options = ProcessGroupNCCL::Options;

// NCCL needs a GPU for each rank. CUDA does not say whether a program has chosen the first GPU or
// none.
void choose_gpu_of_local_rank() {
  const int count = c10::cuda::device_count();
  const char* const text = std::getenv("LOCAL_RANK");
  const auto rank = parse_number<int>(text == nullptr ? "" : text);
  // Without a GPU, ProcessGroupNCCL throws. With one, CUDA_VISIBLE_DEVICES may show each rank its
  // own.
  if (!rank || count < 2 || c10::cuda::current_device() != 0) return;
  TORCH_CHECK_VALUE(0 <= *rank && *rank < count, "nccl needs a GPU for each rank, and LOCAL_RANK ",
                    *rank, " has none: ", count, " GPUs are visible; start at most ", count,
                    " ranks on this node, such as with --nproc-per-node gpu");
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(*rank));
}

c10::intrusive_ptr<Options> options_of(const NcclOptions& given) {
  auto options = Options::create(given.is_high_priority_stream);
  ncclConfig_t& config = options->config;
  if (given.min_ctas) config.minCTAs = *given.min_ctas;
  if (given.max_ctas) config.maxCTAs = *given.max_ctas;
  if (given.cga_cluster_size) config.cgaClusterSize = *given.cga_cluster_size;
  if (given.blocking) config.blocking = *given.blocking ? 1 : 0;
  return options;
}

// A copy, because a program may pass the same options for several groups.
c10::intrusive_ptr<Options> copied_options(const BackendRequest& request) {
  if (!request.options) return Options::create();
  if (const auto* ours = dynamic_cast<const NcclOptions*>(request.options.get())) {
    return options_of(*ours);
  }
  return c10::make_intrusive<Options>(dynamic_cast<const Options&>(*request.options));
}

void check_nccl_options(const BackendOptions& options) {
  const auto* given = options.pointer().get();
  TORCH_CHECK_TYPE(given == nullptr || dynamic_cast<const NcclOptions*>(given) != nullptr ||
                       dynamic_cast<const Options*>(given) != nullptr,
                   "the options of an nccl group are distrun::NcclOptions or "
                   "c10d::ProcessGroupNCCL::Options");
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request) {
  check_nccl_options(request.options);
  auto options = copied_options(request);
  options->timeout = request.timeout;
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  if (request.split_from) {
    options->split_from = c10::dynamic_intrusive_pointer_cast<ProcessGroupNCCL>(request.split_from);
    options->split_color = split_color(request.ranks);
  }
  if (!request.device) choose_gpu_of_local_rank();
  return c10::make_intrusive<ProcessGroupNCCL>(request.store, request.rank, request.size,
                                               std::move(options));
}

bool has_type(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kBool:
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
      return true;
    default:
      return false;
  }
}

class NcclTraits : public BackendTraits {
 public:
  void check_options(const BackendOptions& options) const override { check_nccl_options(options); }

  std::chrono::milliseconds default_timeout() const override {
    return c10d::kProcessGroupNCCLDefaultTimeout;
  }

  void stay_out_of_split(c10d::Backend& parent, c10::Device device) const override {
    if (auto* nccl = dynamic_cast<ProcessGroupNCCL*>(&parent)) nccl->performNocolorSplit(device);
  }

  void check_dtype(const CallSite& site, const Name& name,
                   const at::Tensor& tensor) const override {
    site.check(
        has_type(type_sent(tensor)), name, " has dtype ", tensor.scalar_type(),
        ", which nccl does not reduce; expected double, float, half, bfloat16, float8, uint8, "
        "int8, int32, int64 or bool");
  }

  void check_operation(const CallSite& site, const at::Tensor& /*tensor*/,
                       const c10d::ReduceOp& op) const override {
    using c10d::ReduceOp;
    site.check(op != ReduceOp::BAND && op != ReduceOp::BOR && op != ReduceOp::BXOR, "nccl has no ",
               name_of(op), "; expected SUM, AVG, PRODUCT, MIN, MAX or PREMUL_SUM");
  }

  void check_device(const CallSite& site, const Name& name,
                    const at::Tensor& tensor) const override {
    site.check(tensor.is_cuda(), name, " is on ", tensor.device(),
               "; nccl supports only tensors on a GPU");
  }

  bool is_timeout(std::string_view text) const override {
    return text.find("Watchdog caught collective operation timeout") != text.npos;
  }
};

}  // namespace

std::optional<RegisteredBackend> nccl_backend() {
  return RegisteredBackend{
      make_nccl_backend, {c10::DeviceType::CUDA}, std::make_shared<NcclTraits>()};
}

std::string why_no_nccl() { return ""; }

}  // namespace distrun::internal
