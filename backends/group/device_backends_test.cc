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

template <class Act>
std::string error_in(const Act& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

std::string error_of(const std::string& text) {
  return error_in([&] { parse_device_backends(text); });
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
  EXPECT_THAT(error_of("gluu"), HasSubstr("unknown backend 'gluu'; known: auto, fake, gloo"));
  EXPECT_THAT(error_of("cpu:gluu"), HasSubstr("unknown backend 'gluu'"));
  EXPECT_THAT(error_of("ucc"), HasSubstr("; ucc is not built in; add it with register_backend()"));
  EXPECT_EQ(error_of("toaster:gloo"),
            "'toaster' in the backend 'toaster:gloo' is not a device type; use cpu, cuda, …");
  for (const auto& [pair, text] :
       {std::pair("cuda:0:gloo", "cuda:0:gloo"), std::pair(" ", "cpu:gloo,"),
        std::pair("cuda", "cpu:gloo,cuda"), std::pair("cpu:", "cpu:")}) {
    EXPECT_EQ(error_of(text), c10::str("'", pair, "' in the backend '", text,
                                       "' is not DEVICE:BACKEND, such as cpu:gloo,cuda:fake"));
  }
  EXPECT_EQ(error_of("cpu:gloo,CPU:gloo"), "the backend 'cpu:gloo,CPU:gloo' names cpu twice");
  EXPECT_THAT(error_of(""), HasSubstr("unknown backend ''"));
}

TEST(BackendRegistryTest, AListIsAvailableIfAllItsBackendsAre) {
  EXPECT_TRUE(is_backend_available("cpu:Gloo,cuda:fake"));
  EXPECT_FALSE(is_backend_available("cpu:gloo,cuda:gluu"));
  EXPECT_THAT(error_in([] { is_backend_available("toaster:gloo"); }),
              HasSubstr("is not a device type"));
}

TEST(BackendRegistryTest, KnowsThePresentBackends) {
  EXPECT_TRUE(is_gloo_available());
  EXPECT_EQ(is_nccl_available(), is_backend_available("nccl"));
  EXPECT_FALSE(is_ucc_available());
  EXPECT_FALSE(is_xccl_available());
  EXPECT_FALSE(is_mpi_available());
  register_backend("mpi", [](const BackendRequest&) { return nullptr; }, {kCpu});
  EXPECT_TRUE(is_mpi_available());
}

TEST(BackendRegistryTest, KnowsTheDefaultBackendOfADevice) {
  EXPECT_EQ(get_default_backend_for_device(kCpu), "gloo");
  EXPECT_EQ(get_default_backend_for_device(kCuda), "nccl");
  EXPECT_EQ(error_in([] { get_default_backend_for_device(c10::DeviceType::XLA); }),
            "get_default_backend_for_device: no backend is known for xla; add one with "
            "register_backend()");
  const auto maker = [](const BackendRequest&) { return nullptr; };
  register_backend("xla_first", maker, {kCpu, c10::DeviceType::XLA});
  register_backend("xla_second", maker, {c10::DeviceType::XLA});
  EXPECT_EQ(get_default_backend_for_device(c10::DeviceType::XLA), "xla_first");
  EXPECT_EQ(get_default_backend_for_device(kCpu), "gloo");
}

TEST(BackendRegistryTest, RegistersABackendOnceForItsDevices) {
  register_backend("mine", [](const BackendRequest&) { return nullptr; }, {kCuda});
  EXPECT_THAT(parse_device_backends("mine"), ElementsAre(DeviceBackend{kCuda, "mine"}));
  EXPECT_EQ(
      error_in([] { register_backend("mine", std::bind_front(make_backend, "mine"), {kCpu}); }),
      "register_backend: backend 'mine' is already registered");
}

TEST(BackendRegistryTest, RejectsInvalidNamesMakersAndDevices) {
  const BackendMaker maker = std::bind_front(make_backend, "gloo");
  for (const std::string name : {"Mine", "a:b", "a,b", ""}) {
    EXPECT_EQ(error_in([&] { register_backend(name, maker, {kCpu}); }),
              "register_backend: '" + name +
                  "' is not a valid backend name; use lower case without ':' and ','");
  }
  EXPECT_EQ(error_in([] { register_backend("nobody", nullptr, {kCpu}); }),
            "register_backend: 'nobody' has no maker");
  EXPECT_EQ(error_in([&] { register_backend("nowhere", maker, {}); }),
            "register_backend: 'nowhere' has no device");
}

}  // namespace
}  // namespace distrun
