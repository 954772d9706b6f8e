#include "testsuites/harness/run/pipe_reader.h"

#include <csignal>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace distrun {
namespace {

class PipeReaderTest : public ::testing::Test {
 protected:
  PipeReaderTest() {
    ::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    to_.reset(ends[1]);
    reader_ = std::make_unique<PipeReader>(
        io_, UniqueFd(ends[0]), [this](std::string_view bytes) { take(bytes); },
        [this] { ++ended_; });
  }

  virtual void take(std::string_view bytes) { text_ += bytes; }

  void write(const std::string& text) const {
    EXPECT_EQ(::write(to_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  boost::asio::io_context io_;
  UniqueFd to_;
  std::unique_ptr<PipeReader> reader_;
  std::string text_;
  int ended_ = 0;
};

TEST_F(PipeReaderTest, ReadsToTheEnd) {
  write("one");
  io_.run_one();
  EXPECT_EQ(text_, "one");
  EXPECT_FALSE(reader_->has_ended());
  write("two");
  to_.reset();
  io_.run();
  EXPECT_EQ(text_, "onetwo");
  EXPECT_TRUE(reader_->has_ended());
  EXPECT_EQ(ended_, 1);
}

TEST_F(PipeReaderTest, DrainReadsUntilThePipeIsEmpty) {
  const std::string much(60'000, 'x');
  write(much);
  EXPECT_FALSE(reader_->drain()) << "this process holds its other end";
  EXPECT_EQ(text_, much);
  EXPECT_FALSE(reader_->has_ended());
  write("more");
  to_.reset();
  EXPECT_TRUE(reader_->drain());
  EXPECT_EQ(text_, much + "more");
  EXPECT_TRUE(reader_->has_ended());
  EXPECT_TRUE(reader_->drain());
  io_.run();
  EXPECT_EQ(ended_, 1);
}

TEST_F(PipeReaderTest, ReadWhatIsThereLeavesLaterBytes) {
  reader_->read_what_is_there();
  EXPECT_EQ(text_, "");
  write("one");
  reader_->read_what_is_there();
  EXPECT_EQ(text_, "one");
  to_.reset();
  reader_->read_what_is_there();
  EXPECT_FALSE(reader_->has_ended()) << "the loop reports its end";
  io_.run();
  EXPECT_EQ(ended_, 1);
}

TEST_F(PipeReaderTest, GivesUpAPipeThatIsHeldOpen) {
  reader_->give_up();
  EXPECT_TRUE(reader_->has_ended());
  EXPECT_TRUE(reader_->drain());
  io_.run();
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(::write(to_.get(), "x", 1), -1) << "it is closed";
}

TEST_F(PipeReaderTest, CallsNoHandlerAfterDestruction) {
  write("one");
  reader_.reset();
  io_.run();
  EXPECT_EQ(text_, "");
  EXPECT_EQ(ended_, 0);
}

// Its handler gives up the reader.
class SatisfiedReaderTest : public PipeReaderTest {
 protected:
  void take(std::string_view bytes) override {
    PipeReaderTest::take(bytes);
    reader_->give_up();
  }
};

TEST_F(SatisfiedReaderTest, CanBeGivenUpInItsHandler) {
  write("one");
  io_.run();
  EXPECT_EQ(text_, "one");
  EXPECT_EQ(ended_, 1);
}

TEST_F(SatisfiedReaderTest, CanBeGivenUpWhileDraining) {
  write("one");
  EXPECT_TRUE(reader_->drain());
  EXPECT_EQ(text_, "one");
  EXPECT_EQ(ended_, 1);
}

}  // namespace
}  // namespace distrun
