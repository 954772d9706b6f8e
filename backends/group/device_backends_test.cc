#include "backends/group/device_backends.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distrun/backend_registry.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kCpu = c10::DeviceType::CPU, kCuda = c10::DeviceType::CUDA;

std::string error_of(const std::string& text) {
  try {
    parse_device_backends(text);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(DeviceBackendsTest, SingleNameSelectsAllDevicesOfTheBackend) {
  EXPECT_THAT(parse_device_backends("gloo"),
              ElementsAre(DeviceBackend{kCpu, "gloo"}, DeviceBackend{kCuda, "gloo"}));
}

TEST(DeviceBackendsTest, ParsesPairsInAnyCase) {
  EXPECT_THAT(parse_device_backends("CUDA:Gloo, cpu : gloo"),
              ElementsAre(DeviceBackend{kCuda, "gloo"}, DeviceBackend{kCpu, "gloo"}));
}

TEST(DeviceBackendsTest, RejectsUnknownBackendsAndMalformedPairs) {
  EXPECT_THAT(error_of("gluu"), HasSubstr("unknown backend 'gluu'; known: fake, gloo"));
  EXPECT_THAT(error_of("cpu:gluu"), HasSubstr("unknown backend 'gluu'"));
  EXPECT_THAT(error_of("nccl"),
              HasSubstr("; nccl is not built in; add it with register_backend()"));
  EXPECT_THAT(error_of("toaster:gloo"), HasSubstr("'toaster' in the backend"));
  EXPECT_THAT(error_of("cuda:0:gloo"), HasSubstr("'cuda:0:gloo' in the backend"));
  EXPECT_THAT(error_of("cpu:gloo,"), HasSubstr("' ' in the backend"));
  EXPECT_THAT(error_of("cpu:gloo,cuda"), HasSubstr("'cuda' in the backend"));
  EXPECT_THAT(error_of("cpu:gloo,CPU:gloo"), HasSubstr("names cpu twice"));
  EXPECT_THAT(error_of(""), HasSubstr("unknown backend ''"));
}

TEST(BackendRegistryTest, RegistersABackendOnceForItsDevices) {
  register_backend("mine", [](const BackendRequest&) { return nullptr; }, {kCuda});
  EXPECT_THAT(parse_device_backends("mine"), ElementsAre(DeviceBackend{kCuda, "mine"}));
  EXPECT_THROW(register_backend("mine", std::bind_front(make_backend, "mine"), {kCpu}),
               c10::ValueError);
}

TEST(BackendRegistryTest, RejectsInvalidNamesMakersAndDevices) {
  const BackendMaker maker = std::bind_front(make_backend, "gloo");
  EXPECT_THROW(register_backend("Mine", maker, {kCpu}), c10::ValueError);
  EXPECT_THROW(register_backend("a:b", maker, {kCpu}), c10::ValueError);
  EXPECT_THROW(register_backend("", maker, {kCpu}), c10::ValueError);
  EXPECT_THROW(register_backend("nobody", nullptr, {kCpu}), c10::ValueError);
  EXPECT_THROW(register_backend("nowhere", maker, {}), c10::ValueError);
}

}  // namespace
}  // namespace distrun
