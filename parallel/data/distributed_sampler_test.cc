#include "distrun/distributed_sampler.h"

#include <sstream>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/serialize/archive.h>

#include "distrun/process_group.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::StartsWith;

std::vector<std::size_t> indices_of(std::size_t size, const DistributedSamplerOptions& options,
                                    std::int64_t epoch = 0) {
  DistributedSampler sampler(size, options);
  sampler.set_epoch(epoch);
  EXPECT_EQ(sampler.indices().size(), sampler.size());
  return sampler.indices();
}

// The lists are those of torch.utils.data.DistributedSampler.
TEST(DistributedSamplerTest, HasTheOrderOfPython) {
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 0}), ElementsAre(4, 5, 0, 2));
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 0}, 3), ElementsAre(6, 7, 1, 4));
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 1}), ElementsAre(1, 3, 8, 4));
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 2}), ElementsAre(7, 9, 6, 1));
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 2}, 3), ElementsAre(3, 5, 2, 0));
  EXPECT_THAT(indices_of(7, {.num_replicas = 2, .rank = 1, .seed = 42}), ElementsAre(6, 5, 0, 1));
}

TEST(DistributedSamplerTest, LeavesOutTheLastSamplesOrUsesTheFirstTwice) {
  EXPECT_THAT(indices_of(10, {.num_replicas = 3, .rank = 2, .drop_last = true}),
              ElementsAre(7, 9, 6));
  EXPECT_THAT(indices_of(10, {.num_replicas = 4, .rank = 3, .shuffle = false}),
              ElementsAre(3, 7, 1));
  EXPECT_THAT(indices_of(10, {.num_replicas = 4, .rank = 3, .shuffle = false, .drop_last = true}),
              ElementsAre(3, 7));
  // More ranks than samples.
  EXPECT_THAT(indices_of(2, {.num_replicas = 5, .rank = 4, .shuffle = false}), ElementsAre(0));
  EXPECT_THAT(indices_of(2, {.num_replicas = 5, .rank = 3}), ElementsAre(1));
  EXPECT_THAT(indices_of(2, {.num_replicas = 5, .rank = 0, .drop_last = true}), IsEmpty());
  EXPECT_THAT(indices_of(0, {.num_replicas = 5, .rank = 0}), IsEmpty());
}

TEST(DistributedSamplerTest, GivesBatchesAndStartsAgainAtTheNextEpoch) {
  DistributedSampler sampler(10, {.num_replicas = 3, .rank = 0});
  DistributedSampler of_loader = sampler;  // A data loader copies its sampler.
  EXPECT_THAT(of_loader.next(3), Optional(ElementsAre(4, 5, 0)));
  sampler.set_epoch(3);
  EXPECT_THAT(of_loader.next(3), Optional(ElementsAre(2)));
  EXPECT_EQ(of_loader.next(3), std::nullopt);
  of_loader.reset();
  EXPECT_THAT(of_loader.next(9), Optional(ElementsAre(6, 7, 1, 4)));
  of_loader.reset(3);
  EXPECT_EQ(of_loader.next(9)->size(), 1);
}

TEST(DistributedSamplerTest, ContinuesWhereItWasSaved) {
  DistributedSampler sampler(10, {.num_replicas = 3, .rank = 0});
  sampler.set_epoch(3);
  sampler.reset();
  sampler.next(3);
  torch::serialize::OutputArchive saved;
  sampler.save(saved);
  std::stringstream file;
  saved.save_to(file);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  DistributedSampler other(10, {.num_replicas = 3, .rank = 0});
  other.load(archive);
  EXPECT_THAT(other.next(9), Optional(ElementsAre(4)));
}

TEST(DistributedSamplerTest, TakesRankAndSizeFromTheDefaultGroup) {
  init_process_group({.backend = "fake", .rank = 1, .world_size = 3});
  EXPECT_THAT(indices_of(10, {}), ElementsAre(1, 3, 8, 4));
  destroy_process_group();
  EXPECT_THROW(DistributedSampler(10), c10::Error);
  try {
    DistributedSampler(10, {.num_replicas = 3, .rank = 3});
    FAIL();
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                StartsWith("DistributedSampler: rank 3 is not in 0 to 2"));
  }
}

}  // namespace
}  // namespace distrun
