#include "launcher/run/output_drain.h"

#include <array>
#include <optional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/test/folder.h"

namespace distrun {
namespace {

// The console is a pipe that is too small for the output.
class OutputDrainTest : public ::testing::Test {
 protected:
  OutputDrainTest() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
    plan_ = make_plan({.nproc_per_node = 1}, {"/bin/true", {"true"}}, {}).value();
    output_.emplace(io_, plan_, own_.path() + "/run",
                    RunOutput::Consoles{.out = writer_.get(), .err = writer_.get()},
                    [](const RunOutput::Lost&) {});
    output_->say(std::string(kBytes - 1, 'x') + "\n");
  }

  OutputDrain& make(std::chrono::milliseconds timeout) {
    return drain_.emplace(io_, *output_, timeout);
  }

  void read_all() {
    std::array<char, 4096> bytes;
    for (std::size_t got = 0; got < kBytes;) {
      io_.poll();
      const auto count = ::read(reader_.get(), bytes.data(), bytes.size());
      ASSERT_GT(count, 0);
      got += static_cast<std::size_t>(count);
    }
  }

  static constexpr std::size_t kBytes = 1 << 20;
  static constexpr std::chrono::seconds kWaitMax{20};  // Reached only if the test fails.
  const testing::Folder own_;
  boost::asio::io_context io_;
  UniqueFd reader_, writer_;
  LaunchPlan plan_;
  std::optional<RunOutput> output_;
  std::optional<OutputDrain> drain_;
  bool drained_ = false;
};

TEST_F(OutputDrainTest, WaitsUntilTheReaderHasTakenEverything) {
  OutputDrain& drain = make(std::chrono::hours(1));
  EXPECT_FALSE(drain.has_begun());
  drain.stop_after_timeout();
  drain.begin([&] { drained_ = true; });
  EXPECT_TRUE(drain.has_begun());
  io_.poll();
  EXPECT_FALSE(drained_);
  read_all();
  io_.run_for(kWaitMax);
  EXPECT_TRUE(drained_);
  EXPECT_TRUE(io_.stopped()) << "the timeout is still waited for";
}

TEST_F(OutputDrainTest, StopsTheLoopAtTheTimeoutIfTheReaderHangs) {
  OutputDrain& drain = make(std::chrono::milliseconds(0));
  drain.stop_after_timeout();
  drain.begin([&] { drained_ = true; });
  io_.run_for(kWaitMax);
  EXPECT_TRUE(io_.stopped());
  EXPECT_FALSE(drained_);
}

}  // namespace
}  // namespace distrun
