// A temporary folder for tests; the destructor removes it with its contents.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <ftw.h>
#include <gtest/gtest.h>

namespace distrun::testing {

class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "distrun_test.XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  ~Folder() {
    // Ignores errors: an abandoned run may still write. Not std::filesystem::remove_all(): LibTorch
    // 2.11 exports its own, which crashes.
    const auto remove = [](const char* file, const struct stat*, int, FTW*) {
      static_cast<void>(std::remove(file));
      return 0;
    };
    ::nftw(path_.c_str(), remove, /*nopenfd=*/8, FTW_DEPTH | FTW_PHYS);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace distrun::testing
