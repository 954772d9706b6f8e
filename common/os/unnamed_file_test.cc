#include "common/os/unnamed_file.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using testing::Folder;

TEST(UnnamedFileTest, KeepsWhatIsWrittenAndLeavesNoName) {
  const Folder folder;
  const auto file = make_unnamed_file(folder.path());
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(::write(file->get(), "hello", 5), 5);
  char bytes[5];
  ASSERT_EQ(::pread(file->get(), bytes, 5, 0), 5);
  EXPECT_EQ(std::string(bytes, 5), "hello");
  struct stat status {};
  ASSERT_EQ(::fstat(file->get(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0U);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(UnnamedFileTest, ThePathOpensTheFileAgain) {
  const auto file = make_unnamed_file("/tmp");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(::write(file->get(), "hello", 5), 5);
  EXPECT_EQ(std::filesystem::file_size(path_of_descriptor(file->get())), 5U);
}

TEST(UnnamedFileTest, AMissingFolderIsAnError) {
  const auto file = make_unnamed_file("/nowhere");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "make a file in /nowhere: no such file or directory");
}

}  // namespace
}  // namespace distrun
