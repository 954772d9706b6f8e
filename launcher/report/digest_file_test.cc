#include "launcher/report/digest_file.h"

#include <fstream>

#include <gtest/gtest.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

class DigestFileTest : public ::testing::Test {
 protected:
  std::string error(int world_size = 2) const {
    const auto recorded = read_digests(path_, world_size);
    return recorded ? "" : recorded.error().message;
  }

  const testing::Folder folder_;
  const std::string path_ = folder_.path() + "/digests";
  const std::string name_ = "--compare-digests " + path_ + ": ";
};

CollectiveOfRanks all_reduce(std::uint32_t number) {
  CollectiveOfRanks all;
  for (int rank = 0; rank < 2; ++rank) {
    all.by_rank[rank] = {.op = "all_reduce",
                         .group = "0",
                         .group_size = 2,
                         .sequence = number,
                         .output_digests = BlockDigests{number}};
  }
  return all;
}

TEST_F(DigestFileTest, HasTheCollectivesOfTheLastAttempt) {
  auto file = DigestFile::open(path_).value();
  for (int attempt = 0; attempt < 2; ++attempt) {
    file.happened(AttemptStarted{attempt}, 2);
    file.add(all_reduce(1));
    file.happened(RunSuspended{}, 2);
    if (attempt == 0) file.add(all_reduce(2));
  }
  ASSERT_FALSE(file.finish());
  auto recorded = read_digests(path_, 2).value();
  for (const std::uint32_t number : {1, 2}) {
    EXPECT_FALSE(recorded.compare(all_reduce(number))) << number;
    EXPECT_EQ(recorded.compared(), 1u) << number;
  }
}

TEST_F(DigestFileTest, SaysIfNothingWasRecorded) {
  auto file = DigestFile::open(path_).value();
  file.happened(AttemptStarted{0}, 2);
  EXPECT_EQ(file.finish()->message,
            "--save-digests " + path_ +
                ": no collective was recorded; docs/collectives.md says which ones distrun sees");
}

TEST_F(DigestFileTest, TwoRunsDoNotShareAFile) {
  const auto file = DigestFile::open(path_).value();
  EXPECT_EQ(DigestFile::open(path_).error().message,
            "--save-digests " + path_ + ": another run writes to it; give another file");
}

TEST_F(DigestFileTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_EQ(error(), name_ + "no such file; a run with --save-digests writes it");
  std::ofstream(path_) << "hello\n";
  EXPECT_EQ(error(), name_ + "line 1: was not written by --save-digests");
  EXPECT_EQ(read_digests(folder_.path(), 2).error().message,
            "--compare-digests " + folder_.path() + ": it is not a regular file");
}

TEST_F(DigestFileTest, ARunOfAnotherSizeIsRefused) {
  std::ofstream(path_) << recorded_header(4) << "\n";
  EXPECT_EQ(error(4), "");
  EXPECT_EQ(error(0), "") << "not yet known";
  EXPECT_EQ(error(2), name_ + "the recorded run had 4 ranks, and this run has 2; start 4 ranks");
}

}  // namespace
}  // namespace distrun
