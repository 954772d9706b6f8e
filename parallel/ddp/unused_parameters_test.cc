#include "parallel/ddp/unused_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using ::testing::StartsWith;

constexpr const char* kLibTorchs =
    "Expected to have finished reduction in the prior iteration before starting a new one. …\n"
    "Parameters which did not receive grad for rank 1: b1, b2\n"
    "Parameter indices which did not receive grad for rank 1: 2 3";

std::string advice_for(const DdpOptions& options) {
  return advice_on_unused_parameters(kLibTorchs, options).value_or("none");
}

TEST(UnusedParametersTest, NamesParametersAndTheOptionThatFindsThem) {
  EXPECT_EQ(advice_for({}),
            "the last backward() computed no gradient of b1, b2: set "
            "DdpOptions::find_unused_parameters if forward() does not use every parameter; let it "
            "return only outputs that the loss uses");
}

TEST(UnusedParametersTest, DoesNotAdviseToSetAnOptionThatIsSet) {
  EXPECT_EQ(advice_for({.find_unused_parameters = true}),
            "the last backward() computed no gradient of b1, b2: let forward() return only outputs "
            "that the loss uses, and let visit_tensors() find all of them");
  EXPECT_EQ(advice_for({.static_graph = true}),
            "the last backward() computed no gradient of b1, b2: with DdpOptions::static_graph "
            "every iteration uses the same parameters; leave it out, or use them all");
}

TEST(UnusedParametersTest, NamesNoParametersIfLibTorchDoesNot) {
  EXPECT_THAT(advice_on_unused_parameters(
                  "Expected to have finished reduction in the prior iteration …", {})
                  .value_or("none"),
              StartsWith("the last backward() computed no gradient of some parameters: "));
}

TEST(UnusedParametersTest, SaysThatTheLastBackwardThrew) {
  EXPECT_EQ(advice_on_unused_parameters(
                "!unmarked_param_indices.empty() INTERNAL ASSERT FAILED at \"…/reducer.cpp\":2121, "
                "please report a bug to PyTorch. ",
                {}),
            "the last backward() threw, so it did not average the gradients; construct a new "
            "DistributedDataParallel");
}

TEST(UnusedParametersTest, IgnoresOtherErrors) {
  EXPECT_EQ(advice_on_unused_parameters("Expected to mark a variable ready only once", {}),
            std::nullopt);
}

}  // namespace
}  // namespace distrun::internal
