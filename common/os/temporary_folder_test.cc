#include "common/os/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TemporaryFolderTest : public ::testing::Test {
 protected:
  testing::Folder parent_;
  Environment environment_;
};

TEST_F(TemporaryFolderTest, IsRemovedWithItsContents) {
  environment_.set("TMPDIR", parent_.path());
  std::optional<TemporaryFolder> folder(TemporaryFolder::make(environment_).value());
  const std::string path = folder->path();
  EXPECT_THAT(path, StartsWith(parent_.path() + "/distrun_"));
  std::ofstream(path + "/file") << "text";
  TemporaryFolder moved = std::move(*folder);
  folder.reset();
  EXPECT_TRUE(std::filesystem::exists(path)) << "it has another owner";
  folder.emplace(std::move(moved));
  folder.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(TemporaryFolderTest, IsInTheFirstUsablePlace) {
  environment_.set("TMPDIR", parent_.path() + "/missing");
  environment_.set("TEMP", parent_.path());
  EXPECT_THAT(make_temporary_folder(environment_, "logs").value(),
              StartsWith(parent_.path() + "/logs_"));
}

TEST_F(TemporaryFolderTest, ErrorNamesTheFolderThatCannotBeMade) {
  const auto folder = make_unique_folder(parent_.path() + "/missing/logs");
  ASSERT_TRUE(folder.has_error());
  EXPECT_THAT(folder.error().message,
              HasSubstr("make a folder " + parent_.path() + "/missing/logs"));
}

}  // namespace
}  // namespace distrun
