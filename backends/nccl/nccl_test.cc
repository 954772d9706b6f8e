// Tests of "nccl" that need no GPU. The suite `nccl` has the others.
#include <chrono>
#include <string>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/cuda.h>

#include "backends/group/collective_checks.h"
#include "backends/group/registered_backends.h"
#include "distrun/backend_registry.h"
#include "distrun/fake_options.h"
#include "distrun/nccl_options.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
  // Other tests may have registered more backends.
  EXPECT_THAT(
      error_of(alone()),
      AllOf(StartsWith("unknown backend 'nccl'; known: auto, fake, gloo"),
            EndsWith("; nccl needs distrun built with a CUDA build of LibTorch: `make cuda` "
                     "builds it")));
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

TEST(NcclTest, KnowsItsDtypesOperationsDevicesAndTimeouts) {
  if (!has_nccl()) GTEST_SKIP() << "this build has no nccl";
  init_process_group({.backend = "fake", .rank = 1, .world_size = 4});
  const internal::BackendTraits& nccl = *internal::find_backend("nccl").traits;
  const internal::CallSite site{"all_reduce", {}};
  const at::Tensor one = at::ones({1}), shorts = at::ones({1}, at::kShort);
  const auto text_of = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  EXPECT_EQ(text_of([&] { nccl.check_dtype(site, "tensor", one); }), "");
  EXPECT_EQ(text_of([&] { nccl.check_dtype(site, "tensor", shorts); }),
            "all_reduce on rank 1: tensor has dtype Short, which nccl does not reduce; expected "
            "double, float, half, bfloat16, float8, uint8, int8, int32, int64 or bool");
  EXPECT_EQ(text_of([&] { nccl.check_operation(site, one, c10d::ReduceOp::AVG); }), "");
  EXPECT_EQ(text_of([&] { nccl.check_operation(site, one, c10d::ReduceOp::BXOR); }),
            "all_reduce on rank 1: nccl has no BXOR; expected SUM, AVG, PRODUCT, MIN, MAX or "
            "PREMUL_SUM");
  EXPECT_EQ(text_of([&] { nccl.check_device(site, "tensor", one); }),
            "all_reduce on rank 1: tensor is on cpu; nccl supports only tensors on a GPU");
  EXPECT_TRUE(nccl.is_timeout("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL("));
  EXPECT_FALSE(nccl.is_timeout("another error"));
  destroy_process_group();
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
