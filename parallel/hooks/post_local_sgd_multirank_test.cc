#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/serialize.h>

#include "distrun/post_local_sgd_hook.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Its gradient is the input.
struct WeightImpl : torch::nn::Module {
  at::Tensor weight, other;
  WeightImpl() {
    weight = register_parameter("weight", at::ones({2}));
    other = register_parameter("other", at::ones({3}));
  }
  at::Tensor forward(double gradient) { return (weight.sum() + other.sum()) * gradient; }
};

class PostLocalSgdMultirankTest : public DdpMultirankTest {
 protected:
  // The reduced gradient of each step, if rank r has the gradient r + 1.
  static std::vector<double> gradients(const PostLocalSGDState& state, int steps) {
    DistributedDataParallel ddp(std::make_shared<WeightImpl>(), {.bucket_cap_mb = 0});
    ddp.register_comm_hook(state, post_localSGD_hook);
    std::vector<double> found;
    for (int step = 0; step < steps; ++step) {
      ddp.zero_grad();
      ddp(get_rank() + 1.0).backward();
      found.push_back(ddp.module()->weight.grad()[0].item<double>());
      EXPECT_TRUE(ddp.module()->other.grad().equal(at::full({3}, found.back())));
    }
    return found;
  }

  static double mean_of_all() { return (get_world_size() + 1) / 2.0; }

  // Sets LOCAL_WORLD_SIZE, or removes it, until the end of the scope.
  class LocalWorldSize {
   public:
    explicit LocalWorldSize(const char* value) : before_(std::getenv("LOCAL_WORLD_SIZE")) {
      set(value);
    }
    ~LocalWorldSize() { set(before_.c_str()); }
    LocalWorldSize(const LocalWorldSize&) = delete;
    LocalWorldSize& operator=(const LocalWorldSize&) = delete;

   private:
    static void set(const char* value) {
      if (value == nullptr) {
        unsetenv("LOCAL_WORLD_SIZE");
      } else {
        setenv("LOCAL_WORLD_SIZE", value, 1);
      }
    }
    std::string before_;
  };
};

TEST_F(PostLocalSgdMultirankTest, ReducesInTheSubgroupAfterTheStart) {
  const Group alone = new_subgroups(1).own.value();
  const PostLocalSGDState state({.subgroup = alone, .start_localSGD_iter = 2});
  const double own = get_rank() + 1;
  EXPECT_THAT(gradients(state, 5), ElementsAre(mean_of_all(), mean_of_all(), own, own, own));
  EXPECT_EQ(state.iter(), 2);
}

TEST_F(PostLocalSgdMultirankTest, ReducesInPairsAfterTheStart) {
  const int half = get_rank() / 2;
  std::vector<std::vector<int>> ranks;
  for (int rank = 0; rank < get_world_size(); ++rank) {
    if (rank % 2 == 0) ranks.emplace_back();
    ranks.back().push_back(rank);
  }
  const Group pair = new_subgroups_by_enumeration(ranks).own.value();
  const PostLocalSGDState state({.subgroup = pair, .start_localSGD_iter = 1});
  const bool is_alone = get_world_size() == half * 2 + 1;
  const double of_pair = half * 2 + (is_alone ? 1 : 1.5);
  EXPECT_THAT(gradients(state, 3), ElementsAre(mean_of_all(), of_pair, of_pair));
}

TEST_F(PostLocalSgdMultirankTest, DoesNotReduceAfterTheStartIfAsked) {
  const PostLocalSGDState state({.start_localSGD_iter = 1, .post_local_gradient_allreduce = false});
  EXPECT_FALSE(state.options().subgroup);
  const double own = get_rank() + 1;
  EXPECT_THAT(gradients(state, 3), ElementsAre(mean_of_all(), own, own));
}

TEST_F(PostLocalSgdMultirankTest, CreatesAGroupForEachNode) {
  const PostLocalSGDState of_all({.start_localSGD_iter = 0});
  EXPECT_EQ(get_world_size(*of_all.options().subgroup), get_world_size());
  EXPECT_THAT(gradients(of_all, 2), ElementsAre(mean_of_all(), mean_of_all()));
  EXPECT_EQ(get_world_size(*PostLocalSGDState({}).options().subgroup), get_world_size());
  const LocalWorldSize one("1");
  const PostLocalSGDState alone({.start_localSGD_iter = 0});
  EXPECT_EQ(get_world_size(*alone.options().subgroup), 1);
}

TEST_F(PostLocalSgdMultirankTest, RejectsAMissingOrWrongLocalWorldSize) {
  for (const char* value : {static_cast<const char*>(nullptr), "", "0", "-1", "2x"}) {
    const LocalWorldSize scope(value);
    const std::string shown = value == nullptr ? "" : value;
    EXPECT_THAT(error_of([] { const PostLocalSGDState state; }),
                StartsWith("PostLocalSGDState on rank " + std::to_string(get_rank()) +
                           ": LOCAL_WORLD_SIZE is '" + shown +
                           "'; set it to the number of ranks on each node, or pass a subgroup"));
  }
}

TEST_F(PostLocalSgdMultirankTest, LogsTheStart) {
  const PostLocalSGDState state({.start_localSGD_iter = 2, .post_local_gradient_allreduce = false});
  const int level = std::exchange(FLAGS_caffe2_log_level, 0);
  ::testing::internal::CaptureStderr();
  gradients(state, 3);
  const std::string log = ::testing::internal::GetCapturedStderr();
  FLAGS_caffe2_log_level = level;
  EXPECT_THAT(log, HasSubstr("post_localSGD_hook: reduces in the subgroup after 2 iterations"));
}

TEST_F(PostLocalSgdMultirankTest, ContinuesAtTheSavedIteration) {
  const PostLocalSGDOptions options{.start_localSGD_iter = 3,
                                    .post_local_gradient_allreduce = false};
  const PostLocalSGDState state(options);
  gradients(state, 2);
  std::stringstream file;
  torch::save(state, file);
  PostLocalSGDState other(options);
  torch::load(other, file);
  EXPECT_EQ(other.iter(), 2);
  const double own = get_rank() + 1;
  EXPECT_THAT(gradients(other, 2), ElementsAre(mean_of_all(), own));
}

TEST_F(PostLocalSgdMultirankTest, RejectsAnArchiveOfSomethingElse) {
  std::stringstream file;
  torch::save(at::ones({1}), file);
  PostLocalSGDState state({.post_local_gradient_allreduce = false});
  EXPECT_THAT(error_of([&] { torch::load(state, file); }),
              StartsWith("PostLocalSGDState: the archive has no 'post_localSGD_iter'; pass an "
                         "archive that a PostLocalSGDState has saved"));
}

TEST_F(PostLocalSgdMultirankTest, RejectsADamagedArchive) {
  for (const c10::IValue& wrong : {c10::IValue("three"), c10::IValue(-1)}) {
    torch::serialize::OutputArchive archive;
    archive.write("post_localSGD_iter", wrong);
    std::stringstream file;
    archive.save_to(file);
    PostLocalSGDState state({.post_local_gradient_allreduce = false});
    EXPECT_EQ(error_of([&] { torch::load(state, file); }),
              "PostLocalSGDState: the archive is damaged: 'post_localSGD_iter' is not what a "
              "PostLocalSGDState saves; load another one");
  }
}

TEST_F(PostLocalSgdMultirankTest, RejectsASubgroupWithoutThisRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a second rank";
  const Group first = new_group({0});
  if (first.is_member()) return;
  EXPECT_EQ(error_of([&] { PostLocalSGDState({.subgroup = first}); }),
            "PostLocalSGDState on rank " + std::to_string(get_rank()) +
                ": this rank is not in the subgroup; pass each rank its own");
}

}  // namespace
}  // namespace distrun
