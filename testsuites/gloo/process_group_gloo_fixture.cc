#include "testsuites/gloo/process_group_gloo_fixture.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/group/libtorch_versions.h"
#include "distrun/backend_registry.h"
#include "testsuites/mutation/mutation.h"

namespace distrun {

namespace {

using c10d::ProcessGroupGloo;

constexpr std::chrono::seconds kTimeout{50};

// The only place where the suite creates a backend. With shm, options for Gloo have no effect.
c10::intrusive_ptr<c10d::Backend> make_backend(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    const c10::intrusive_ptr<ProcessGroupGloo::Options>& options) {
  std::signal(SIGPIPE, SIG_IGN);  // A lost peer is then an error, as in Python.
  if (name == "shm") {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return mutated(distrun::make_backend(
        name, {.store = store, .rank = rank, .size = size, .timeout = kTimeout, .ranks = ranks}));
  }
  return mutated(c10::make_intrusive<ProcessGroupGloo>(store, rank, size, options));
}

}  // namespace

std::string ProcessGroupGlooTest::interface() {
  const char* chosen = nodes() > 1 ? std::getenv("GLOO_SOCKET_IFNAME") : nullptr;
  return chosen == nullptr ? "lo" : chosen;
}

ProcessGroupGlooTest::OptionsPtr ProcessGroupGlooTest::options(int threads) {
  auto options = ProcessGroupGloo::Options::create(kTimeout);
  options->devices = {ProcessGroupGloo::createDeviceForInterface(interface())};
  options->threads = threads;
  return options;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupGlooTest::create_gloo(const OptionsPtr& options) {
  auto group = connect_gloo("gloo", options);
  group->barrier()->wait();
  return group;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupGlooTest::create_gloo(int threads) {
  return create_gloo(options(threads));
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupGlooTest::connect_gloo(const std::string& name,
                                                                     const OptionsPtr& options) {
  return make_backend(backend(), store(name), rank(), world_size(), options);
}

c10::intrusive_ptr<c10d::ProcessGroup> ProcessGroupGlooTest::create_process_group() {
  const auto group_store = store("process_group");
  auto group = c10::make_intrusive<c10d::ProcessGroup>(group_store, rank(), world_size());
  const auto its_backend =
      make_backend(backend(), c10::make_intrusive<c10d::PrefixStore>("cpu/", group_store), rank(),
                   world_size(), options());
  internal::start_sequence_numbers(*its_backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  for (const auto device : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    group->setBackend(device, c10d::ProcessGroup::BackendType::GLOO, its_backend);
  }
  group->setGroupName("0");
  group->setGroupDesc("default_pg");
  return group;
}

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.clone(); }

at::Tensor on_cuda(const at::Tensor& tensor) { return tensor.to(at::Device(at::kCUDA, 0)); }

at::Tensor as_column(const at::Tensor& tensor) {
  return tensor.expand({2, 2}).contiguous().select(/*dim=*/1, /*index=*/0);
}

}  // namespace distrun
