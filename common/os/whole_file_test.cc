#include "common/os/whole_file.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/test/folder.h"
#include "common/units.h"

namespace distrun {
namespace {

class WholeFileTest : public ::testing::Test {
 protected:
  std::size_t files_there() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  testing::Folder temporary_;
  const std::string folder_ = temporary_.path();
  const std::string path_ = folder_ + "/file";
};

TEST_F(WholeFileTest, WritesReadsAndReplacesAFile) {
  EXPECT_FALSE(read_whole_file(path_, kMiB).value().has_value());
  ASSERT_TRUE(replace_file(path_, "a longer text").has_value());
  ASSERT_TRUE(replace_file(path_, std::string("a\0b", 3)).has_value());
  EXPECT_EQ(read_whole_file(path_, kMiB).value(), std::string("a\0b", 3));
  EXPECT_EQ(files_there(), 1U);
}

TEST_F(WholeFileTest, ReaderOfTheOldFileKeepsIt) {
  ASSERT_TRUE(replace_file(path_, "old").has_value());
  std::ifstream reader(path_);
  ASSERT_TRUE(replace_file(path_, "new").has_value());
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "old");
}

TEST_F(WholeFileTest, RefusesAFileThatIsTooLong) {
  ASSERT_TRUE(replace_file(path_, std::string(kMiB, 'x')).has_value());
  EXPECT_EQ(read_whole_file(path_, kMiB).value()->size(), kMiB);
  ASSERT_TRUE(replace_file(path_, std::string(kMiB + 1, 'x')).has_value());
  EXPECT_EQ(read_whole_file(path_, kMiB).error().message, path_ + ": it is longer than 1 MiB");
}

TEST_F(WholeFileTest, RefusesAPipeWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(read_whole_file(path_, kMiB).error().message, path_ + ": it is not a regular file");
}

TEST_F(WholeFileTest, NewFileHasTheModeOfTheUmask) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(replace_file(path_, "text").has_value());
  EXPECT_EQ(::umask(before), mode_t{027});
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, mode_t{0640});
}

TEST_F(WholeFileTest, ChecksWhetherAFileCanBeReplaced) {
  ASSERT_TRUE(replace_file(path_, "old").has_value());
  EXPECT_TRUE(try_to_replace(path_).has_value());
  EXPECT_EQ(read_whole_file(path_, kMiB).value(), "old");
  EXPECT_EQ(files_there(), 1U);
  EXPECT_EQ(try_to_replace(folder_ + "/no/file").error().message,
            "write " + folder_ + "/no/file: no such file or directory");
}

TEST_F(WholeFileTest, FailedWriteIsAnErrorAndLeavesNoFile) {
  std::filesystem::create_directory(path_);
  EXPECT_EQ(replace_file(path_, "text").error().message, "write " + path_ + ": is a directory");
  EXPECT_EQ(files_there(), 1U);
  EXPECT_EQ(replace_file(folder_ + "/no/file", "text").error().message,
            "write " + folder_ + "/no/file: no such file or directory");
}

}  // namespace
}  // namespace distrun
