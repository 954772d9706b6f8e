// InitOptions::device_id: what reaches the backends.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "distrun/backend_registry.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const c10::Device kGpu{c10::kCUDA, 3};

// A backend on GPUs that notes what it is asked for.
class Splitter : public c10d::Backend {
 public:
  Splitter(const BackendRequest& request, std::string name, bool can_split)
      : Backend(request.rank, request.size), name_(std::move(name)), can_split_(can_split) {}

  const std::string getBackendName() const override { return name_; }
  bool supportsSplitting() const override { return can_split_; }
  void eagerConnectSingleDevice(at::Device device) override {
    connected.push_back(device);
    group_when_connected = getGroupUid();
  }

  std::vector<at::Device> connected;
  std::string group_when_connected;

 private:
  const std::string name_;
  const bool can_split_;
};

std::vector<BackendRequest> requests;

void register_splitter(const std::string& name, bool can_split) {
  if (is_backend_available(name)) return;
  register_backend(name,
                   [=](const BackendRequest& request) {
                     requests.push_back(request);
                     return c10::make_intrusive<Splitter>(request, name, can_split);
                   },
                   {c10::kCUDA});
}

class DeviceIdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_splitter("splitter", true);
    register_splitter("joiner", false);
  }
  void TearDown() override {
    c10d::setDebugLevel(c10d::DebugLevel::Off);
    if (is_initialized()) destroy_process_group();
    requests.clear();
  }

  // Rank 0 of 2.
  static void init(const std::string& backend, std::optional<c10::Device> device) {
    init_process_group({.backend = backend,
                        .rank = 0,
                        .world_size = 2,
                        .store = c10::make_intrusive<c10d::HashStore>(),
                        .device_id = device});
  }
  static Splitter& backend_of(const Group& group) {
    return dynamic_cast<Splitter&>(*group->getBackend(c10::kCUDA));
  }
  static std::string error_of(const std::string& backend, c10::Device device) {
    try {
      init(backend, device);
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }
};

TEST_F(DeviceIdTest, TheGroupConnectsOnItAtOnce) {
  init("splitter", kGpu);
  EXPECT_EQ(Group()->getBoundDeviceId(), kGpu);
  EXPECT_THAT(backend_of({}).connected, ElementsAre(kGpu));
  EXPECT_EQ(backend_of({}).group_when_connected, "0");
  EXPECT_EQ(backend_of({}).getBoundDeviceId(), kGpu);
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].device, kGpu);
  EXPECT_FALSE(requests[0].split_from);
}

TEST_F(DeviceIdTest, NewGroupsSplitTheDefaultGroup) {
  init("splitter", kGpu);
  const Group group = new_group({0});
  EXPECT_THAT(backend_of(group).connected, ElementsAre(kGpu));
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[1].device, kGpu);
  EXPECT_EQ(requests[1].split_from.get(), &backend_of({}));
}

TEST_F(DeviceIdTest, GroupsThatOnlyTheirMembersCreateConnectAnew) {
  init("splitter", kGpu);
  const Group group = new_group({0}, {.use_local_synchronization = true});
  EXPECT_THAT(backend_of(group).connected, ElementsAre(kGpu));
  EXPECT_FALSE(requests.back().split_from);
}

TEST_F(DeviceIdTest, GroupsOfAnotherBackendConnectAnew) {
  init("splitter", kGpu);
  const Group group = new_group({0}, {.backend = "joiner"});
  EXPECT_FALSE(requests.back().split_from);
  const Group other = new_group({0}, {.backend = "cpu:fake"});  // It has nothing for GPUs.
  EXPECT_TRUE(other.is_member());
}

TEST_F(DeviceIdTest, BackendsThatDoNotSplitConnectLater) {
  init("joiner", kGpu);
  const Group group = new_group({0});
  EXPECT_THAT(backend_of(group).connected, IsEmpty());
  EXPECT_EQ(requests.back().device, kGpu);
  EXPECT_FALSE(requests.back().split_from);
}

TEST_F(DeviceIdTest, WithoutItBackendsConnectLater) {
  init("splitter", std::nullopt);
  const Group group = new_group({0});
  EXPECT_THAT(backend_of({}).connected, IsEmpty());
  EXPECT_THAT(backend_of(group).connected, IsEmpty());
  EXPECT_FALSE(requests.back().split_from);
}

// LibTorch's fake devices, of which there are eight.
TEST_F(DeviceIdTest, InitSelectsItAndNewGroupsDoNot) {
  using Driver = c10::impl::FakeGuardImpl<c10::kPrivateUse1>;
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kPrivateUse1, new Driver);
  init("privateuseone:splitter", c10::Device(c10::kPrivateUse1, 5));
  EXPECT_EQ(Driver::getDeviceIndex(), 5);
  Driver::setDeviceIndex(2);
  new_group({0});
  EXPECT_EQ(Driver::getDeviceIndex(), 2);
  destroy_process_group();
  EXPECT_EQ(error_of("privateuseone:splitter", c10::Device(c10::kPrivateUse1, 8)),
            "device_id is privateuseone:8, and the number of visible GPUs is 8");
  EXPECT_EQ(Driver::getDeviceIndex(), 2);
}

TEST_F(DeviceIdTest, ErrorsNameTheDevice) {
  EXPECT_EQ(error_of("splitter", c10::Device(c10::kCUDA)),
            "device_id is cuda; expected a GPU with its index, such as cuda:0");
  EXPECT_EQ(error_of("gloo", c10::Device(c10::kCPU, 0)),
            "device_id is cpu:0; expected a GPU with its index, such as cuda:0");
  EXPECT_EQ(error_of("cpu:fake", kGpu),
            "device_id is cuda:3, and the backend 'cpu:fake' has none for it");
  EXPECT_FALSE(is_initialized());
}

}  // namespace
}  // namespace distrun
