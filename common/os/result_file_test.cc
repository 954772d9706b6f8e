#include "common/os/result_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/test/folder.h"
#include "common/units.h"

namespace distrun {
namespace {

class ResultFileTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  std::size_t files_there() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), {}));
  }

  testing::Folder folder_;
};

TEST_F(ResultFileTest, KeepsTheOldFileUntilTheNewOneIsComplete) {
  std::ofstream(file("a")) << "old";
  const auto opened = ResultFile::open(file("a"));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(content(file("a")), "old");
  EXPECT_EQ(files_there(), 1U);
  std::ifstream reader(file("a"));
  ASSERT_TRUE(opened->write("new"));
  EXPECT_EQ(content(file("a")), "new");
  EXPECT_EQ(files_there(), 1U);
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
}

TEST_F(ResultFileTest, OpenFailsIfTheFileCannotBeWritten) {
  const auto nowhere = ResultFile::open(file("no/a"));
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(nowhere.error().message, "write " + file("no/a") + ": no such file or directory");
  const auto folder = ResultFile::open(folder_.path());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "write " + folder_.path() + ": is a directory");
}

TEST_F(ResultFileTest, AFullDiskLeavesTheOldFile) {
  std::ofstream(file("a")) << "old";
  const auto opened = ResultFile::open(file("a"));
  ASSERT_TRUE(opened);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{64 * kKiB, before.rlim_max};
  const auto action = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &little);
  const auto written = opened->write(std::string(kMiB, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, action);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "write " + file("a") + ": file too large");
  EXPECT_EQ(content(file("a")), "old");
  EXPECT_EQ(files_there(), 1U);
}

TEST_F(ResultFileTest, AFullDeviceIsAnError) {
  const auto opened = ResultFile::open("/dev/full");
  ASSERT_TRUE(opened) << opened.error().message;
  const auto written = opened->write("text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "write /dev/full: no space left on device");
}

TEST_F(ResultFileTest, RecognizesOneFileUnderTwoNames) {
  EXPECT_TRUE(are_same_file("/dev/stdout", "/dev/fd/1"));
  EXPECT_TRUE(are_same_file(file("a"), folder_.path() + "/./a")) << "before it is there";
  EXPECT_FALSE(are_same_file(file("a"), file("b")));
  std::ofstream(file("a")) << "old";
  std::filesystem::create_symlink("a", file("link"));
  EXPECT_TRUE(are_same_file(file("a"), file("link")));
  EXPECT_FALSE(are_same_file("/dev/null", "/dev/null"));
}

TEST_F(ResultFileTest, KeepsASymbolicLink) {
  std::ofstream(file("target")) << "old";
  std::filesystem::create_symlink("target", file("link"));
  const auto opened = ResultFile::open(file("link"));
  ASSERT_TRUE(opened);
  ASSERT_TRUE(opened->write("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(file("link")));
  EXPECT_EQ(content(file("target")), "new");
}

TEST_F(ResultFileTest, WritesToAPipe) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  const auto unread = ResultFile::open(file("pipe"));
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().message,
            "write " + file("pipe") + ": no process reads it; start the reader first");
  const UniqueFd reader(::open(file("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto opened = ResultFile::open(file("pipe"));
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->write("text"));
  char text[8] = {};
  EXPECT_EQ(::read(reader.get(), text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
}

// A process that has the file open, as distrun's stdout, would not see a replacement.
TEST_F(ResultFileTest, WritesToAnOpenDescriptorOfAnyKind) {
  const UniqueFd own(::open(file("a").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(own.get(), "before ", 7), 7);
  const auto opened = ResultFile::open("/proc/self/fd/" + std::to_string(own.get()));
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_TRUE(opened->write("text"));
  char text[16] = {};
  EXPECT_EQ(::pread(own.get(), text, sizeof(text), 0), 11);
  EXPECT_STREQ(text, "before text");
}

}  // namespace
}  // namespace distrun
