#include "launcher/hosts/host_order.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HostOrderTest, ArrivesAsItWasSent) {
  HostOrder order{.command = "check",
                  .arguments = {"--nproc-per-node=2", "--", "train\xff.py", ""},
                  .folder = "/home/\xfe",
                  .environment = {},
                  .end_max = std::chrono::seconds(40)};
  order.environment.set("PATH", "/bin:\xff");
  const std::string bytes = encode(order);
  const auto length = decode_length(bytes);
  ASSERT_TRUE(length);
  ASSERT_EQ(bytes.size(), kLengthBytes + *length);
  const auto arrived = decode_order(bytes.substr(kLengthBytes));
  ASSERT_TRUE(arrived) << arrived.error().message;
  EXPECT_EQ(arrived->command, order.command);
  EXPECT_EQ(arrived->arguments, order.arguments);
  EXPECT_EQ(arrived->folder, order.folder);
  EXPECT_EQ(arrived->end_max, order.end_max);
  EXPECT_EQ(arrived->environment.variables(), order.environment.variables());
}

TEST(HostOrderTest, BytesThatKeepAliveAreAnEmptyOrder) {
  const auto length = decode_length(kAliveBytes);
  ASSERT_TRUE(length);
  EXPECT_EQ(*length, 0U);
  EXPECT_EQ(kAliveBytes.find_first_not_of(kAlive), kAliveBytes.npos);
  EXPECT_EQ(control_byte(SIGTERM)[0], SIGTERM);
}

TEST(HostOrderTest, RejectsWhatIsNoOrder) {
  EXPECT_EQ(decode_length("\xff\xff\xff\xff").error().message, "the order is too long");
  EXPECT_FALSE(decode_order("hello"));
  EXPECT_FALSE(decode_order(""));
  const std::string bytes = encode({.folder = "/"});
  EXPECT_FALSE(decode_order(bytes.substr(kLengthBytes, bytes.size() - kLengthBytes - 1)));
}

TEST(HostOrderTest, PassesTheVariablesThatWorkersNeed) {
  Environment environment;
  for (const char* name :
       {"PATH", "PYTHONPATH", "TORCH_LOGS", "NCCL_DEBUG", "OMP_NUM_THREADS", "MINE", "HOME",
        "SSH_AUTH_SOCK", "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_RUN_ID", "PET_NNODES"}) {
    environment.set(name, "1");
  }
  const std::vector<std::string> more = {"MINE", "ABSENT"};
  const Environment passed = passed_variables(environment, more);
  EXPECT_THAT(passed.variables(),
              ElementsAre(Pair("MINE", "1"), Pair("NCCL_DEBUG", "1"), Pair("OMP_NUM_THREADS", "1"),
                          Pair("PATH", "1"), Pair("PYTHONPATH", "1"), Pair("TORCH_LOGS", "1")));
  const std::vector<std::string> devices = {"CUDA_VISIBLE_DEVICES"};
  EXPECT_TRUE(passed_variables(environment, devices).get("CUDA_VISIBLE_DEVICES"));
}

}  // namespace
}  // namespace distrun
