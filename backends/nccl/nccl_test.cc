// What of "nccl" needs no GPU. The suite `nccl` has the rest.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/cuda.h>

#include "backends/group/registered_backends.h"
#include "distrun/backend_registry.h"
#include "distrun/fake_options.h"
#include "distrun/nccl_options.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

std::string error_of(const InitOptions& options) {
  try {
    init_process_group("nccl", options);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  destroy_process_group();
  return "";
}

InitOptions alone() {
  return {.rank = 0, .world_size = 1, .store = c10::make_intrusive<c10d::HashStore>()};
}

bool has_nccl() { return is_backend_available("nccl"); }

TEST(NcclTest, ABuildWithoutItSaysWhichLibTorchHasIt) {
  if (has_nccl()) GTEST_SKIP() << "this build has nccl";
  EXPECT_EQ(error_of(alone()),
            "unknown backend 'nccl'; known: fake, gloo; nccl needs distrun built with a CUDA build "
            "of LibTorch: `make cuda` builds it");
}

TEST(NcclTest, RejectsTheOptionsOfAnotherBackend) {
  if (!has_nccl()) GTEST_SKIP() << "this build has no nccl";
  InitOptions options = alone();
  options.backend_options = c10::make_intrusive<FakeOptions>();
  EXPECT_EQ(error_of(options),
            "the options of an nccl group are distrun::NcclOptions or "
            "c10d::ProcessGroupNCCL::Options");
}

TEST(NcclTest, TheDefaultTimeoutIsPytorchs) {
  if (!has_nccl()) GTEST_SKIP() << "this build has no nccl";
  EXPECT_EQ(internal::find_backend("nccl").traits->default_timeout(), std::chrono::minutes(10));
  EXPECT_EQ(internal::find_backend("gloo").traits->default_timeout(), std::chrono::minutes(30));
}

TEST(NcclTest, WithoutAGpuTheErrorIsPytorchs) {
  if (!has_nccl()) GTEST_SKIP() << "this build has no nccl";
  if (torch::cuda::device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  InitOptions options = alone();
  options.backend_options = c10::make_intrusive<NcclOptions>();
  EXPECT_THAT(error_of(options),
              HasSubstr("ProcessGroupNCCL is only supported with GPUs, no GPUs found!"));
  EXPECT_FALSE(is_initialized());
}

}  // namespace
}  // namespace distrun
