#include "common/operations/operation_pages.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/operations/operation_writer.h"
#include "common/os/quick_clock.h"

namespace distrun {
namespace {

const OperationTexts kTexts = operation_texts("all_reduce", "Float", "[4, 2]", "0");

BegunOperation all_reduce(std::uint32_t sequence) {
  return {.elements = 8,
          .element_bytes = 4,
          .group_rank = 1,
          .group_size = 3,
          .sequence = sequence,
          .began = OperationTime(std::chrono::nanoseconds(1234567890123456789)),
          .input_digest = 77};
}

class OperationPagesTest : public ::testing::Test {
 protected:
  std::unique_ptr<OperationWriter> writer(std::size_t worker) {
    return OperationWriter::open(OperationPages::address(pages_.file(), worker));
  }

  Result<OperationPages> made_ = OperationPages::make(2);
  OperationPages& pages_ = *made_;
};

TEST_F(OperationPagesTest, ReadsWhatAWorkerHasWritten) {
  const auto worker = writer(1);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->begin(kTexts, all_reduce(5)), 1U);
  EXPECT_EQ(pages_.begun(0), 0U);
  EXPECT_EQ(pages_.begun(1), 1U);
  auto read = pages_.read(1, 1);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->number, 1U);
  EXPECT_EQ(read->op, "all_reduce");
  EXPECT_EQ(read->dtype, "Float");
  EXPECT_EQ(read->sizes, "[4, 2]");
  EXPECT_EQ(read->elements, 8U);
  EXPECT_EQ(read->element_bytes, 4U);
  EXPECT_EQ(read->group, "0");
  EXPECT_EQ(read->group_rank, 1);
  EXPECT_EQ(read->group_size, 3);
  EXPECT_EQ(read->sequence, 5U);
  EXPECT_EQ(read->peer, -1);
  EXPECT_EQ(read->began, all_reduce(5).began);
  EXPECT_EQ(read->input_digest, 77U);
  EXPECT_TRUE(read->is_in_progress());
  EXPECT_EQ(read->output_digests, std::nullopt);

  const BlockDigests digests = {1, 2, 3};
  const OperationTime end = quick_time_now();
  worker->end(1, end, digests);
  read = pages_.read(1, 1);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->ended, end);
  EXPECT_FALSE(read->is_in_progress());
  EXPECT_EQ(read->output_digests, digests);
}

TEST_F(OperationPagesTest, AnUnknownEndIsNotInProgress) {
  const auto worker = writer(0);
  worker->end_is_unknown(worker->begin(kTexts, all_reduce(1)));
  EXPECT_FALSE(pages_.read(0, 1)->is_in_progress());
}

TEST_F(OperationPagesTest, KeepsTheLastOperations) {
  const auto worker = writer(0);
  const std::uint64_t count = kOperationSlots + 10;
  for (std::uint32_t i = 1; i <= count; ++i) worker->begin(kTexts, all_reduce(i));
  EXPECT_FALSE(pages_.read(0, 10));
  const auto all = pages_.read_after(0, 0);
  ASSERT_EQ(all.size(), kOperationSlots);
  EXPECT_EQ(all.front().number, 11U);
  EXPECT_EQ(all.back().sequence, count);
  EXPECT_EQ(pages_.read_after(0, count - 3).size(), 3U);
  EXPECT_TRUE(pages_.read_after(0, count).empty());
  worker->end(10, quick_time_now());  // Of an operation that is gone: changes nothing.
  EXPECT_EQ(pages_.read(0, 10 + kOperationSlots)->ended, std::nullopt);
}

TEST_F(OperationPagesTest, LongTextsAreCut) {
  const auto worker = writer(0);
  worker->begin(operation_texts("", "", "", std::string(100, 'g')), all_reduce(1));
  EXPECT_EQ(pages_.read(0, 1)->group, std::string(48, 'g'));
}

TEST_F(OperationPagesTest, AnUnknownRankInTheGroupStaysUnknown) {
  BegunOperation operation = all_reduce(1);
  operation.group_rank = -1;
  const auto worker = writer(0);
  worker->begin(kTexts, operation);
  EXPECT_EQ(pages_.read(0, 1)->group_rank, -1);
}

TEST_F(OperationPagesTest, ControlCharactersOfAWorkerAreEscaped) {
  const auto worker = writer(0);
  worker->begin(operation_texts("\x1b[2J", "", "", ""), all_reduce(1));
  EXPECT_EQ(pages_.read(0, 1)->op.find('\x1b'), std::string::npos);
}

TEST_F(OperationPagesTest, TheNextAttemptBeginsEmpty) {
  writer(0)->begin(kTexts, all_reduce(1));
  pages_.clear();
  EXPECT_EQ(pages_.begun(0), 0U);
  EXPECT_FALSE(pages_.read(0, 1));
  const auto worker = writer(0);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->begin(kTexts, all_reduce(1)), 1U);
}

TEST_F(OperationPagesTest, OneProcessOfAWorkerRecords) {
  const auto mine = writer(0);
  ASSERT_NE(mine, nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // It can use neither its parent's writer nor a new one.
    const bool is_silent = mine->begin(kTexts, all_reduce(1)) == 0 && writer(0) == nullptr;
    ::_exit(is_silent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pages_.begun(0), 0U);
}

TEST_F(OperationPagesTest, KnowsWhichWorkersRecord) {
  int begun[2], end[2];
  ASSERT_EQ(::pipe(begun) + ::pipe(end), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  char byte = 0;
  if (child == 0) {
    ::close(end[1]);
    const auto its = writer(1);
    const bool has_told = its != nullptr && ::write(begun[1], &byte, 1) == 1;
    // Until the parent closes its end.
    ::_exit(has_told && ::read(end[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(begun[1]);
  EXPECT_EQ(::read(begun[0], &byte, 1), 1);
  EXPECT_FALSE(pages_.is_recording(0));
  EXPECT_TRUE(pages_.is_recording(1));
  EXPECT_EQ(pages_.begun(1), 0U);
  for (const int fd : {end[0], end[1], begun[0]}) ::close(fd);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(pages_.is_recording(1));
}

TEST_F(OperationPagesTest, NobodyReadsAtAWrongAddress) {
  for (const char* address : {"", "x", "/proc/1/fd/99999:0", "/dev/null:0", "/dev/zero:0"}) {
    EXPECT_EQ(OperationWriter::open(address), nullptr) << address;
  }
  EXPECT_EQ(OperationWriter::open(pages_.file() + ":8"), nullptr);
  EXPECT_EQ(OperationWriter::open(pages_.file()), nullptr);
}

}  // namespace
}  // namespace distrun
