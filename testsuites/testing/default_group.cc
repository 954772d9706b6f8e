#include "testsuites/testing/default_group.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <torch/cuda.h>

#include "distrun/backend_registry.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun {

namespace {

// The only backend of torch.distributed that may be missing.
constexpr const char* kNccl = "nccl";

bool shares_gpus() {
  const char* const text = std::getenv("DISTRUN_SHARE_GPUS");
  return text != nullptr && std::string(text) == "1";
}

}  // namespace

void DefaultGroupTest::SetUp() {
  if (backend() == kNccl && !is_backend_available(kNccl)) {
    GTEST_SKIP() << "backend " << kNccl << " is not registered";
  }
  if (nodes() == 1) ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  if (backend() == kNccl && shares_gpus()) {
    // NCCL lets ranks of one host share no GPU, so each rank says that it has a host of its own.
    ::setenv("NCCL_HOSTID", ("host" + std::to_string(rank())).c_str(), 0);
    if (nodes() == 1) ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }
  init_process_group(backend(), {.timeout = std::chrono::seconds(30)});
}

void DefaultGroupTest::TearDown() {
  if (HasFailure() || !is_initialized()) return;
  rendezvous("the end");  // A rank in a collective still needs its peers.
  destroy_process_group();
}

std::vector<c10::Device> DefaultGroupTest::gpus(std::size_t count) {
  const auto all = static_cast<std::size_t>(std::max(0, int{torch::cuda::device_count()}));
  std::vector<c10::Device> mine;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = static_cast<std::size_t>(rank()) * count + i;
    mine.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(number % all));
  }
  return mine;
}

}  // namespace distrun
