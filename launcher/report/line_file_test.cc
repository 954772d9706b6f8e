#include "launcher/report/line_file.h"

#include <array>
#include <csignal>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class LineFileTest : public ::testing::Test {
 protected:
  LineFileTest() {
    path_ = folder_ + "/events";
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
  }

  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Creates a FIFO at path_; returns its reading end.
  UniqueFd fifo() {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    return UniqueFd(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  std::string path_;
};

// All that the pipe contains now.
std::string take(const UniqueFd& from) {
  std::string taken;
  std::array<char, 65536> buffer;
  for (ssize_t size; (size = ::read(from.get(), buffer.data(), buffer.size())) > 0;) {
    taken.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return taken;
}

TEST_F(LineFileTest, AppendsLinesOfSeveralRuns) {
  std::ofstream(path_) << "of yesterday\n";
  auto one = LineFile::append("--events", path_).value(),
       other = LineFile::append("--events", path_).value();
  one.write("1");
  other.write("2");
  one.write("3");
  EXPECT_EQ(content(), "of yesterday\n1\n2\n3\n") << "nothing is kept back";
  EXPECT_FALSE(one.finish() || other.finish());
}

TEST_F(LineFileTest, ClearsARegularFile) {
  auto file = LineFile::append("--save-digests", path_).value();
  file.write("of the first attempt");
  file.clear();
  file.write("1");
  EXPECT_EQ(content(), "1\n");
}

TEST_F(LineFileTest, NamesFilesThatCannotBeOpened) {
  EXPECT_EQ(LineFile::append("--events", folder_).error().message,
            "--events " + folder_ + ": is a directory");
  EXPECT_THAT(LineFile::append("--events", folder_ + "/no/such").error().message,
              EndsWith("no such file or directory"));
}

TEST_F(LineFileTest, RejectsAFifoWithoutReader) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(LineFile::append("--events", path_).error().message,
            "--events " + path_ + ": has no reader; start the reader first");
}

TEST_F(LineFileTest, ReopensDescriptorsNamedInDevFd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  auto file = LineFile::append("--events", "/dev/fd/" + std::to_string(to.get())).value();
  file.write("a");
  EXPECT_EQ(::fcntl(to.get(), F_GETFL) & O_NONBLOCK, 0) << "it is not ours alone";
  std::array<char, 2> got;
  ASSERT_EQ(::read(from.get(), got.data(), got.size()), 2);
  EXPECT_EQ(std::string(got.data(), 2), "a\n");
}

TEST_F(LineFileTest, SlowReaderGetsAllLinesInOrder) {
  const UniqueFd reader = fifo();
  auto file = LineFile::append("--events", path_).value();
  const int capacity = ::fcntl(reader.get(), F_GETPIPE_SZ);
  const std::string filler(1000, 'x');
  std::string expected, taken;
  for (int i = 0; i < capacity / 1000 + 500; ++i) {  // Half a MiB more than the pipe can contain.
    const std::string line = std::to_string(i) + filler;
    file.write(line);
    expected += line + '\n';
  }
  taken = take(reader);
  EXPECT_LT(taken.size(), expected.size());
  file.write("last");  // Writes the kept lines first.
  EXPECT_FALSE(file.finish());
  taken += take(reader);
  EXPECT_TRUE(taken == expected + "last\n");
}

// The late reader gets whole lines from the pipe and the buffer; the rest is lost.
TEST_F(LineFileTest, StuckReaderCostsBoundedMemoryAndTime) {
  const UniqueFd reader = fifo();
  auto file = LineFile::append("--events", path_).value();
  const auto held = static_cast<std::size_t>(::fcntl(reader.get(), F_GETPIPE_SZ));
  const std::size_t lines = held / 1000 + 3000;
  for (std::size_t i = 0; i < lines; ++i) file.write(std::string(999, 'x'));
  const auto behind = file.finish(std::chrono::milliseconds(1));
  ASSERT_TRUE(behind.has_value());
  EXPECT_THAT(behind->message, HasSubstr("missing: the reader was too slow"));
  std::string taken;
  for (std::string more; !(more = take(reader)).empty(); taken += more) {
    file.finish(std::chrono::milliseconds(1));
  }
  EXPECT_LE(taken.size(), held + LineFile::kKeptBytesMax);
  EXPECT_EQ(taken.size() % 1000, 0u);
  const auto lost = file.finish();
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(lost->message,
              HasSubstr(std::to_string(lines - taken.size() / 1000) + " lines are missing"));
}

TEST_F(LineFileTest, ReportsAReaderThatHasClosed) {
  UniqueFd reader = fifo();
  auto file = LineFile::append("--events", path_).value();
  file.write("1");
  reader.reset();
  file.write("2");
  file.write("3");
  EXPECT_EQ(file.finish()->message, "--events " + path_ + ": 2 lines are missing: broken pipe");
}

TEST_F(LineFileTest, ReportsAFullDisk) {
  auto file = LineFile::append("--events", "/dev/full").value();
  file.write("1");
  EXPECT_EQ(file.finish()->message,
            "--events /dev/full: 1 line is missing: no space left on device");
}

// A file size limit simulates a full disk, and cuts a line in the middle.
TEST_F(LineFileTest, WritesKeptLinesOnceThereIsSpace) {
  auto file = LineFile::append("--events", path_).value();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  file.write("first");
  file.write("second");
  file.write("third");
  const std::string cut = content();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(cut, "first\nseco");
  file.write("fourth");
  EXPECT_FALSE(file.finish());
  EXPECT_EQ(content(), "first\nsecond\nthird\nfourth\n");
}

}  // namespace
}  // namespace distrun
