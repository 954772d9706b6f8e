// What can be said of process groups without other ranks.
#include "backends/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/rendezvous.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

// The message of the exception that `act` throws.
template <class Act>
std::string failure(const Act& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no exception";
}

Environment environment_with(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set("RANK", "0");
  environment.set("WORLD_SIZE", "2");
  environment.set("MASTER_ADDR", "127.0.0.1");
  environment.set("MASTER_PORT", "29500");
  environment.set(name, value);
  return environment;
}

std::string rendezvous_failure(const Environment& environment) {
  return failure([&] { rendezvous_by_environment(environment, std::chrono::seconds(1)); });
}

TEST(ProcessGroupTest, EveryCallNeedsAGroup) {
  EXPECT_FALSE(is_initialized());
  for (const auto& message :
       {failure([] { get_rank(); }), failure([] { get_world_size(); }), failure([] { barrier(); }),
        failure([] { broadcast(at::Tensor(), 0); }), failure([] { all_reduce(at::Tensor()); }),
        failure([] { destroy_process_group(); })}) {
    EXPECT_THAT(message, HasSubstr("call init_process_group() first"));
  }
}

TEST(ProcessGroupTest, AnUnknownBackendIsNamed) {
  EXPECT_THAT(failure([] { init_process_group("carrier pigeon"); }),
              HasSubstr("unknown backend 'carrier pigeon'"));
  EXPECT_FALSE(is_initialized());
}

TEST(RendezvousTest, AMissingVariableIsNamed) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT(rendezvous_failure(environment_with(name, "")),
                HasSubstr("the variable " + name + " is not set"));
  }
}

TEST(RendezvousTest, AMalformedVariableIsNamed) {
  EXPECT_THAT(rendezvous_failure(environment_with("RANK", "2")),
              HasSubstr("RANK: 2 is not between 0 and 1"));
  EXPECT_THAT(rendezvous_failure(environment_with("WORLD_SIZE", "two")),
              HasSubstr("WORLD_SIZE: 'two' is not a whole number"));
  EXPECT_THAT(rendezvous_failure(environment_with("MASTER_PORT", "0")),
              HasSubstr("MASTER_PORT: 0 is not between 1 and 65535"));
}

}  // namespace
}  // namespace distrun
