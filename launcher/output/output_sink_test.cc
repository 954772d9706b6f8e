#include "launcher/output/output_sink.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "common/os/unique_fd.h"

namespace distrun {
namespace {

class OutputSinkTest : public ::testing::Test {
 protected:
  OutputSinkTest() {
    ::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from_.reset(ends[0]);
    to_.reset(ends[1]);
    sink_.emplace(io_, to_.get(), [this](int error) { broken_ = error; });
  }
  ~OutputSinkTest() override { ::signal(SIGPIPE, SIG_DFL); }

  // Reads what the pipe holds now.
  std::string take(std::size_t most = 1 << 20) {
    std::string bytes(most, '\0');
    const auto size = ::read(from_.get(), bytes.data(), most);
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }

  boost::asio::io_context io_;
  UniqueFd from_, to_;
  std::optional<OutputSink> sink_;
  int broken_ = 0;
};

TEST_F(OutputSinkTest, WritesAtOnceIfTheReaderIsReady) {
  sink_->append("hello\n");
  sink_->flush();
  EXPECT_TRUE(sink_->is_empty());
  EXPECT_EQ(take(), "hello\n");
}

TEST_F(OutputSinkTest, PausingReaderDoesNotBlockAndLosesNoBytes) {
  std::string expected;
  for (int i = 0; !sink_->is_full(); ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    sink_->append(line);
    sink_->flush();
    expected += line;
  }
  bool drained = false;
  sink_->when_drained([&] { drained = true; });
  std::string got;
  while (got.size() < expected.size()) {
    got += take(10'000);
    io_.restart();
    io_.poll();
  }
  EXPECT_EQ(got, expected);
  EXPECT_TRUE(drained);
  EXPECT_FALSE(sink_->is_full());
}

TEST_F(OutputSinkTest, LeavesTheDescriptorBlocking) {
  while (!sink_->is_full()) {
    sink_->append(std::string(1000, 'x'));
    sink_->flush();
  }
  EXPECT_EQ(::fcntl(to_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(OutputSinkTest, ReportsAClosedReaderOnceAndDoesNotBlock) {
  from_.reset();
  for (int i = 0; i < 3; ++i) {
    sink_->append("unread\n");
    sink_->flush();
  }
  EXPECT_EQ(broken_, 0) << "reported from within the call";
  io_.poll();
  EXPECT_EQ(broken_, EPIPE);
  EXPECT_TRUE(sink_->is_empty());
  bool drained = false;
  sink_->when_drained([&] { drained = true; });
  EXPECT_TRUE(drained);
}

TEST_F(OutputSinkTest, WritesToFilesAndDevices) {
  const std::string path = ::testing::TempDir() + "output_sink_test.txt";
  const UniqueFd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  OutputSink sink(io_, file.get(), nullptr);
  const std::string text(1 << 20, 'x');
  sink.append(text);
  sink.flush();
  EXPECT_TRUE(sink.is_empty());
  std::stringstream read;
  read << std::ifstream(path).rdbuf();
  EXPECT_EQ(read.str(), text);
  ::unlink(path.c_str());

  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  OutputSink nothing(io_, null.get(), nullptr);
  nothing.append(text);
  nothing.flush();
  EXPECT_TRUE(nothing.is_empty());
}

TEST_F(OutputSinkTest, ReportsFullDisk) {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  int problem = 0;
  OutputSink sink(io_, full.get(), [&](int error) { problem = error; });
  sink.append("x");
  sink.flush();
  io_.poll();
  EXPECT_EQ(problem, ENOSPC);
}

}  // namespace
}  // namespace distrun
