// For tests: a temporary folder, removed with its contents by the destructor.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace distrun::testing {

class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "distrun_test.XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() {
    std::error_code ignored;  // A run that a test gave up on may still write.
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace distrun::testing
