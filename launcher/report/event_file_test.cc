#include "launcher/report/event_file.h"

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

class EventFileTest : public ::testing::Test {
 protected:
  EventFileTest() {
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

TEST_F(EventFileTest, AppendsLinesOfSeveralRuns) {
  std::ofstream(path_) << "of yesterday\n";
  auto one = EventFile::open(path_).value(), other = EventFile::open(path_).value();
  one.write("1");
  other.write("2");
  one.write("3");
  EXPECT_EQ(content(), "of yesterday\n1\n2\n3\n") << "nothing is kept back";
  EXPECT_FALSE(one.finish() || other.finish());
}

TEST_F(EventFileTest, NamesFilesThatCannotBeOpened) {
  EXPECT_EQ(EventFile::open(folder_).error().message, "--events " + folder_ + ": is a directory");
  EXPECT_THAT(EventFile::open(folder_ + "/no/such").error().message,
              EndsWith("no such file or directory"));
}

TEST_F(EventFileTest, RejectsAFifoWithoutReader) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(EventFile::open(path_).error().message,
            "--events " + path_ + ": has no reader; start the reader first");
}

TEST_F(EventFileTest, ReopensDescriptorsNamedInDevFd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  auto file = EventFile::open("/dev/fd/" + std::to_string(to.get())).value();
  file.write("a");
  EXPECT_EQ(::fcntl(to.get(), F_GETFL) & O_NONBLOCK, 0) << "it is not ours alone";
  std::array<char, 2> got;
  ASSERT_EQ(::read(from.get(), got.data(), got.size()), 2);
  EXPECT_EQ(std::string(got.data(), 2), "a\n");
}

TEST_F(EventFileTest, SlowReaderGetsAllLinesInOrder) {
  const UniqueFd reader = fifo();
  auto file = EventFile::open(path_).value();
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
TEST_F(EventFileTest, StuckReaderCostsBoundedMemoryAndTime) {
  const UniqueFd reader = fifo();
  auto file = EventFile::open(path_).value();
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
  EXPECT_LE(taken.size(), held + EventFile::kKeptBytesMax);
  EXPECT_EQ(taken.size() % 1000, 0u);
  const auto lost = file.finish();
  ASSERT_TRUE(lost.has_value());
  EXPECT_THAT(lost->message,
              HasSubstr(std::to_string(lines - taken.size() / 1000) + " lines are missing"));
}

TEST_F(EventFileTest, ReportsAReaderThatHasClosed) {
  UniqueFd reader = fifo();
  auto file = EventFile::open(path_).value();
  file.write("1");
  reader.reset();
  file.write("2");
  file.write("3");
  EXPECT_EQ(file.finish()->message, "--events " + path_ + ": 2 lines are missing: broken pipe");
}

TEST_F(EventFileTest, ReportsAFullDisk) {
  auto file = EventFile::open("/dev/full").value();
  file.write("1");
  EXPECT_EQ(file.finish()->message,
            "--events /dev/full: 1 line is missing: no space left on device");
}

// A file size limit simulates a full disk, and cuts a line in the middle.
TEST_F(EventFileTest, WritesKeptLinesOnceThereIsSpace) {
  auto file = EventFile::open(path_).value();
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
