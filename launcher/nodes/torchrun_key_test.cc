#include "launcher/nodes/torchrun_key.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(TorchrunKeyTest, KnowsTheKeysOfTheStaticRendezvous) {
  EXPECT_EQ(run_of_torchrun_key("/none/torchelastic/role_info/1"), "none");
  EXPECT_EQ(run_of_torchrun_key("/job 7/torchelastic/assigned_ranks/0"), "job 7");
  EXPECT_EQ(run_of_torchrun_key("/a/b/torchelastic/agent/terminal_state/num_members"), "a/b");
  EXPECT_EQ(run_of_torchrun_key("//torchelastic/role_info/1"), "");
}

TEST(TorchrunKeyTest, KnowsTheKeyOfTheC10dRendezvous) {
  EXPECT_EQ(run_of_torchrun_key("/torch.rendezvous.none"), "none");
  EXPECT_EQ(run_of_torchrun_key("/torch.rendezvous."), "");
}

TEST(TorchrunKeyTest, IgnoresOtherKeys) {
  for (const char* key :
       {"", "/", "/init/", "/none", "/none/torchelastic", "torchelastic/x",
        "none/torchelastic/role_info/1", "/x/torch.rendezvous.none", "/worker/mytorchelastic/1"}) {
    EXPECT_EQ(run_of_torchrun_key(key), std::nullopt) << key;
  }
}

}  // namespace
}  // namespace distrun
