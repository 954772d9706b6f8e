// Errors of FullyShardedDataParallel.
#include <memory>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class FsdpErrorsMultirankTest : public FsdpMultirankTest {};

TEST_F(FsdpErrorsMultirankTest, RejectsModulesThatItCannotShard) {
  using Fsdp = FullyShardedDataParallel<BlockImpl>;
  EXPECT_EQ(error_of([] { Fsdp(std::shared_ptr<BlockImpl>()); }),
            "FullyShardedDataParallel: module is null; expected a torch::nn::Module");
  EXPECT_EQ(error_of([] { FullyShardedDataParallel<Block>(Block(nullptr)); }),
            "FullyShardedDataParallel: module is null; expected a torch::nn::Module");
  const auto twice = std::make_shared<BlockImpl>();
  const Fsdp fsdp(twice);
  EXPECT_EQ(error_of([&] { Fsdp{twice}; }),
            "FullyShardedDataParallel: parameter 'norm.weight' belongs to another unit; make one "
            "unit of the smallest module that has all uses of the parameter (on rank 0)");
  const auto mixed = std::make_shared<BlockImpl>();
  mixed->narrow->to(at::kDouble);
  EXPECT_EQ(error_of([&] { Fsdp{mixed}; }),
            "FullyShardedDataParallel: parameter 'narrow.weight' has dtype Double and "
            "'norm.weight' Float; expected one dtype: convert them, or make units of their "
            "modules (on rank 0)");
  struct Scattered : torch::nn::Module {
    at::Tensor a = register_parameter("a", at::ones({2})),
               b = register_parameter("b", at::empty({2}, at::kMeta));
    at::Tensor forward(const at::Tensor& x) { return x + a + b; }
  };
  EXPECT_EQ(error_of([&] { FullyShardedDataParallel{std::make_shared<Scattered>()}; }),
            "FullyShardedDataParallel: parameter 'b' is on meta and 'a' on cpu; expected one "
            "device (on rank 0)");
}

TEST_F(FsdpErrorsMultirankTest, NoRankWaitsForOneThatCannotShard) {
  const int last = get_world_size() - 1;
  const auto module = std::make_shared<BlockImpl>();
  if (get_rank() == last) module->narrow->to(at::kDouble);
  EXPECT_THAT(error_of([&] { FullyShardedDataParallel<BlockImpl>{module}; }),
              AllOf(HasSubstr("'narrow.weight' has dtype Double"),
                    HasSubstr("(on rank " + std::to_string(last) + ")")));
}

TEST_F(FsdpErrorsMultirankTest, RejectsDifferentModulesOnEachRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank differs from no other";
  const int inputs = get_rank() == 1 ? 5 : 3;
  EXPECT_EQ(
      error_of([&] { FullyShardedDataParallel<torch::nn::Linear>(torch::nn::Linear(inputs, 2)); }),
      "FullyShardedDataParallel: rank 1 has parameter 'weight', Float [2, 5], and rank 0 has "
      "parameter 'weight', Float [2, 3]; all ranks must construct the same module with the "
      "same options");
  EXPECT_THAT(error_of([&] { Unit(Block(), {.sync_module_states = get_rank() == 0}); }),
              HasSubstr("rank 1 has the options param_dtype own, reduce_dtype own, "
                        "sync_module_states 0, and rank 0"));
  const auto counter = std::make_shared<BlockImpl>();
  counter->register_buffer("count", at::zeros({get_rank() == 1 ? 2 : 1}));
  EXPECT_THAT(error_of([&] { FullyShardedDataParallel<BlockImpl>{counter}; }),
              HasSubstr("rank 1 has buffer 'count', Float [2], and rank 0 has buffer 'count', "
                        "Float [1]"));
}

TEST_F(FsdpErrorsMultirankTest, RejectsWhatWouldReplaceShards) {
  Unit unit{Block()};
  std::stringstream file;
  EXPECT_EQ(
      error_of([&] { torch::save(std::shared_ptr<torch::nn::Module>(&unit, [](auto*) {}), file); }),
      "FullyShardedDataParallel: torch::save() would save shards; save full_state_dict()");
  torch::serialize::InputArchive archive;
  EXPECT_EQ(error_of([&] { unit.load(archive); }),
            "FullyShardedDataParallel: torch::load() would replace shards; use "
            "load_full_state_dict()");
  EXPECT_EQ(error_of([&] { unit.to(at::kDouble); }),
            "FullyShardedDataParallel: a sharded module cannot be moved or converted; move it "
            "before it is sharded");
  EXPECT_EQ(error_of([&] { torch::nn::Sequential(std::make_shared<Unit>(Block()))->to(at::kCPU); }),
            error_of([&] { unit.to(at::kDouble); }));
  unit.module()->wide->to(at::kDouble);
  const std::string replaced =
      "FullyShardedDataParallel: the data of parameter 'wide.weight' were replaced, for example by "
      "torch::load() or to(); use load_full_state_dict(), and convert modules before they are "
      "sharded";
  EXPECT_EQ(error_of([&] { unit(at::ones({1, kWidth})); }), replaced);
  EXPECT_EQ(error_of([&] { unit.full_state_dict(); }), replaced);
}

TEST_F(FsdpErrorsMultirankTest, RejectsParametersThatAreRegisteredLater) {
  Unit unit{Block()};
  unit.module()->register_parameter("late", at::ones({2}));
  EXPECT_EQ(error_of([&] { unit.full_state_dict(); }),
            "FullyShardedDataParallel: parameter 'late' was registered after its unit was "
            "constructed; register it before");
}

TEST_F(FsdpErrorsMultirankTest, AGradientThatReachesAParameterOtherwiseIsAnError) {
  FullyShardedDataParallel<Scale> fsdp{Scale()};
  fsdp(at::ones({40}));
  EXPECT_EQ(error_of([&] { fsdp.module()->aux.backward(); }),
            "FullyShardedDataParallel: a gradient has reached parameter 'weight', but no result of "
            "the forward() of its unit; call backward() only on tensors that are computed from "
            "results of forward()");
  struct Reveals : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({4}));
    at::Tensor forward() { return weight.view({2, 2}); }
  };
  FullyShardedDataParallel reveals(std::make_shared<Reveals>());
  EXPECT_EQ(error_of([&] { reveals(); }),
            "FullyShardedDataParallel: forward() returns a parameter or a view of one, whose "
            "memory is freed; return a clone()");
}

}  // namespace
}  // namespace distrun
