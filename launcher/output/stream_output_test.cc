#include "launcher/output/stream_output.h"

#include <optional>

#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace distrun {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

// Two workers write to one pipe.
class StreamOutputTest : public ::testing::Test {
 protected:
  StreamOutputTest() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    from_.reset(ends[0]);
    to_.reset(ends[1]);
    sink_.emplace(io_, to_.get(), [](int) {});
    for (int i = 0; i < 2; ++i) {
      workers_[i].emplace(io_, StreamOutput::Options{.console = &*sink_,
                                                     .unfinished_after = milliseconds(1),
                                                     .prefix = *PrefixTemplate::parse("[${rank}] "),
                                                     .values = {.rank = i}});
    }
  }

  // Waits until every timeout has passed.
  void wait() {
    io_.restart();
    io_.run();
  }

  std::string shown() {
    char text[64 * 1024];
    const auto size = ::read(from_.get(), text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

  asio::io_context io_;
  UniqueFd from_, to_;
  std::optional<OutputSink> sink_;
  std::optional<StreamOutput> workers_[2];
};

TEST_F(StreamOutputTest, ShowsUnfinishedLinesAfterATimeout) {
  workers_[0]->add("a\nname? ");
  EXPECT_EQ(shown(), "[0] a\n");
  wait();
  EXPECT_EQ(shown(), "[0] name? ");
  workers_[0]->add("Ann\nb\n");
  EXPECT_EQ(shown(), "Ann\n[0] b\n");
}

TEST_F(StreamOutputTest, LineOfAnotherWorkerEndsAnUnfinishedLine) {
  workers_[0]->add("name? ");
  wait();
  workers_[1]->add("step 1\n");
  workers_[0]->add("Ann\n");
  EXPECT_EQ(shown(), "[0] name? \n[1] step 1\n[0] …Ann\n");
}

TEST_F(StreamOutputTest, ShowsTheNextPartOfALineAfterAnotherTimeout) {
  workers_[0]->add("Downloading");
  wait();
  workers_[0]->add(".");
  workers_[0]->add(".");
  EXPECT_EQ(shown(), "[0] Downloading");
  wait();
  EXPECT_EQ(shown(), "..");
}

TEST_F(StreamOutputTest, DoesNotShowALineCutByABuffer) {
  workers_[0]->add(std::string(4090, 'x') + "\nline ");
  EXPECT_EQ(shown().size(), 4095U);
  wait();
  workers_[0]->add("1\n");
  EXPECT_EQ(shown(), "[0] line 1\n");
}

TEST_F(StreamOutputTest, DoesNotShowALineCutByABufferAfterAFlush) {
  workers_[0]->add("header\n" + std::string(4090, 'x') + "\nline ");
  EXPECT_EQ(shown().size(), 4095U + 11U);
  wait();
  workers_[0]->add("1\n");
  EXPECT_EQ(shown(), "[0] line 1\n");
}

TEST_F(StreamOutputTest, KeptPartDoesNotShortenTheNextTimeout) {
  workers_[0]->add("caf\xc3");
  wait();
  EXPECT_EQ(shown(), "[0] caf");
  const auto begin = std::chrono::steady_clock::now();
  workers_[0]->add("\xa9 ");
  wait();
  EXPECT_EQ(shown(), "é ");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(1));
}

TEST_F(StreamOutputTest, EndCancelsTheTimeout) {
  workers_[0]->add("last");
  workers_[0]->end();
  EXPECT_EQ(shown(), "[0] last");
  io_.poll();
  EXPECT_TRUE(io_.stopped());
}

}  // namespace
}  // namespace distrun
