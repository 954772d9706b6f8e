#include "backends/nccl/nccl.h"

namespace distrun::internal {

std::optional<RegisteredBackend> nccl_backend() { return std::nullopt; }

std::string why_no_nccl() {
  return "nccl needs distrun built with a CUDA build of LibTorch: `make cuda` builds it";
}

}  // namespace distrun::internal
