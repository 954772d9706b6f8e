#include "launcher/report/trace_file.h"

#include <csignal>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/test/folder.h"
#include "common/text/trace_event.h"

namespace distrun {
namespace {

using ::testing::EndsWith;

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
  }

  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // What a viewer reads now.
  nlohmann::json events() const { return nlohmann::json::parse(content())["traceEvents"]; }

  const testing::Folder folder_;
  const std::string path_ = folder_.path() + "/trace.json";
};

TEST_F(TraceFileTest, IsWholeJsonAfterEachWrite) {
  std::ofstream(path_) << "of yesterday";
  auto file = TraceFile::open(path_).value();
  EXPECT_EQ(content(), "of yesterday") << "the run may not start";
  file.begin(trace_head("{}"));
  EXPECT_EQ(content(), "{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n\n]}\n");
  file.add("1");
  file.flush();
  EXPECT_EQ(events(), nlohmann::json::parse("[1]"));
  file.add("2,\n3");
  file.add("4");
  file.flush();
  EXPECT_EQ(events(), nlohmann::json::parse("[1,2,3,4]"));
  file.add("5");
  EXPECT_FALSE(file.finish());
  EXPECT_EQ(events(), nlohmann::json::parse("[1,2,3,4,5]"));
}

TEST_F(TraceFileTest, WritesAFullPieceWithoutBeingAsked) {
  auto file = TraceFile::open(path_).value();
  file.begin(trace_head("{}"));
  for (int i = 0; i < 70; ++i) file.add(json_text(std::string(1000, 'x')));
  EXPECT_GT(events().size(), 60U);
}

TEST_F(TraceFileTest, NamesFilesThatCannotBeOpened) {
  EXPECT_EQ(TraceFile::open(folder_.path()).error().message,
            "--trace " + folder_.path() + ": is a directory");
  EXPECT_THAT(TraceFile::open(folder_.path() + "/no/such").error().message,
              EndsWith("no such file or directory"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(TraceFile::open(path_).error().message,
            "--trace " + path_ + ": has no reader; start it first");
}

TEST_F(TraceFileTest, AFifoGetsTheEndLast) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto file = TraceFile::open(path_).value();
  file.begin(trace_head("{}"));
  file.add("1");
  file.flush();
  file.add("2");
  EXPECT_FALSE(file.finish());
  std::string text(1000, ' ');
  text.resize(static_cast<std::size_t>(::read(reader.get(), text.data(), text.size())));
  EXPECT_EQ(text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n1,\n2\n]}\n");
}

TEST_F(TraceFileTest, ASlowReaderCostsBoundedMemoryAndTime) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd reader(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  auto file = TraceFile::open(path_).value();
  const auto held = static_cast<std::size_t>(::fcntl(reader.get(), F_GETPIPE_SZ));
  file.begin(trace_head("{}"));
  const std::size_t events = (held + TraceFile::kKeptBytesMax) / 1000 + 1000;
  for (std::size_t i = 0; i < events; ++i) file.add(json_text(std::string(996, 'x')));
  const auto lost = file.finish(std::chrono::milliseconds(1));
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(lost->message, EndsWith("missing: the reader was too slow"));
}

TEST_F(TraceFileTest, ReportsAFullDisk) {
  auto file = TraceFile::open("/dev/full").value();
  file.begin(trace_head("{}"));
  file.add("1,\n2");
  file.add("3");
  EXPECT_EQ(file.finish()->message,
            "--trace /dev/full: 3 events are missing: no space left on device");
}

// A file size limit simulates a full disk.
TEST_F(TraceFileTest, StaysWholeOnAFullDiskAndGoesOnOnceThereIsSpace) {
  auto file = TraceFile::open(path_).value();
  file.begin(trace_head("{}"));
  file.add("1");
  file.flush();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = content().size() + 2;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  file.add("2222");
  file.flush();
  const std::string full = content();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(nlohmann::json::parse(full)["traceEvents"], nlohmann::json::parse("[1]"));
  file.add("3");
  EXPECT_FALSE(file.finish());
  EXPECT_EQ(events(), nlohmann::json::parse("[1,2222,3]"));
}

TEST_F(TraceFileTest, StopsAtItsLimit) {
  auto file = TraceFile::open(path_, /*bytes_max=*/kMiB).value();
  file.begin(trace_head("{}"));
  for (int i = 0; i < 1100; ++i) file.add(json_text(std::string(1000, 'x')));
  file.add("1");
  const auto lost = file.finish();
  ASSERT_TRUE(lost.has_value());
  const std::size_t written = events().size();
  EXPECT_LE(content().size(), kMiB);
  EXPECT_GT(written, 1000U);
  EXPECT_EQ(lost->message, "--trace " + path_ + ": the file has reached its limit of 1 MiB; " +
                               std::to_string(1101 - written) + " events are left out");
}

}  // namespace
}  // namespace distrun
