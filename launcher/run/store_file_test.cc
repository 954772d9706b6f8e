#include "launcher/run/store_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class StoreFileTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_ + "/meet"; }
  bool is_there() const { return std::filesystem::exists(path()); }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  void expect_not_fresh() const {
    const auto file = StoreFile::make(path());
    ASSERT_TRUE(file.has_error());
    EXPECT_EQ(file.error().kind, ErrorKind::kSystem);
    EXPECT_THAT(file.error().message,
                AllOf(HasSubstr(path()),
                      HasSubstr("the path exists already; give a path that does not exist")));
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(path())));
  }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
};

TEST_F(StoreFileTest, IsPrivateAndRemovedAfterwards) {
  {
    const StoreFile file = StoreFile::make(path()).value();
    EXPECT_EQ(file.url(), "file://" + path());
    struct stat status {};
    ASSERT_EQ(::stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
  }
  EXPECT_FALSE(is_there());
}

TEST_F(StoreFileTest, RejectsTheFileOfAnotherRun) {
  const StoreFile file = StoreFile::make(path()).value();
  expect_not_fresh();
}

TEST_F(StoreFileTest, UsesAnEmptyFileOnceAndKeepsIt) {
  write("");
  {
    const StoreFile file = StoreFile::make(path()).value();
    expect_not_fresh();
  }
  EXPECT_TRUE(is_there());
}

TEST_F(StoreFileTest, RejectsAnythingButAnEmptyFileAndKeepsIt) {
  write("what a run has left");
  expect_not_fresh();
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_not_fresh();
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_not_fresh();
  std::filesystem::remove(path());
  std::filesystem::create_symlink("nowhere", path());
  expect_not_fresh();
}

TEST_F(StoreFileTest, ReportsAMissingFolder) {
  const Error error = StoreFile::make(folder_ + "/missing/meet").error();
  EXPECT_EQ(error.kind, ErrorKind::kSystem);
  EXPECT_EQ(error.message, "make the store file " + folder_ +
                               "/missing/meet: no such file or directory; its folder must exist "
                               "and be writable");
}

// After the last worker has removed the file, another run may create one at the same path.
TEST_F(StoreFileTest, KeepsAFileThatReplacedItsOwn) {
  {
    const StoreFile file = StoreFile::make(path()).value();
    std::filesystem::remove(path());
    write("another's");
  }
  EXPECT_TRUE(is_there());
}

TEST_F(StoreFileTest, RecreatesAFileThatWorkersHaveRemoved) {
  const StoreFile file = StoreFile::make(path()).value();
  std::filesystem::remove(path());
}

}  // namespace
}  // namespace distrun
