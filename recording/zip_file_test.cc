#include "recording/zip_file.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/os/unnamed_file.h"
#include "common/test/folder.h"

namespace distrun {
namespace {

using testing::Folder;

class ZipFileTest : public ::testing::Test {
 protected:
  void write(std::string_view text) const {
    ZipWriter zip(path_);
    zip.add("a.txt", text);
    zip.add("b.txt", "two");
    const auto written = zip.finish();
    ASSERT_TRUE(written) << written.error().message;
  }

  std::string bytes() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void set_bytes(const std::string& bytes) const { std::ofstream(path_) << bytes; }

  static std::string error_of(const Result<std::optional<std::string>>& read) {
    return read ? "no error" : read.error().message;
  }

  const Folder folder_;
  const std::string path_ = folder_.path() + "/a.zip";
};

TEST_F(ZipFileTest, MembersHaveTheirBytes) {
  std::string text(3'000'000, 'x');
  for (std::size_t at = 0; at < text.size(); at += 7) text[at] = static_cast<char>(at);
  write(text);
  const auto first = read_zip_member(path_, "a.txt", text.size());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(*first == text);
  EXPECT_EQ(*read_zip_member(path_, "b.txt", 10), "two");
  EXPECT_EQ(*read_zip_member(path_, "c.txt", 10), std::nullopt);
}

TEST_F(ZipFileTest, AMemberCanBeAFile) {
  const auto file = make_unnamed_file(folder_.path());
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(::write(file->get(), "hello", 5), 5);
  ZipWriter zip(path_);
  zip.add_file("a.txt", file->get());
  ASSERT_TRUE(zip.finish());
  EXPECT_EQ(*read_zip_member(path_, "a.txt", 10), "hello");
}

TEST_F(ZipFileTest, OtherProgramsReadIt) {
  write("hello\n");
  const std::string check = "python3 -m zipfile -t " + path_ + " > /dev/null";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(ZipFileTest, ALongMemberIsAnErrorForAShortLimit) {
  write("hello");
  EXPECT_EQ(error_of(read_zip_member(path_, "a.txt", 4)),
            path_ + ": a.txt is longer than distrun reads");
}

TEST_F(ZipFileTest, DamagedBytesAreAnError) {
  write("hello");
  std::string bytes = this->bytes();
  const auto at = bytes.find("a.txt") + 5;
  bytes[at + 2] = static_cast<char>(bytes[at + 2] ^ 1);
  set_bytes(bytes);
  EXPECT_EQ(error_of(read_zip_member(path_, "a.txt", 10)), path_ + ": is damaged, in a.txt");
}

TEST_F(ZipFileTest, OtherFilesAreErrors) {
  EXPECT_EQ(error_of(read_zip_member(path_, "a", 1)), path_ + ": no such file or directory");
  set_bytes("no zip");
  EXPECT_EQ(error_of(read_zip_member(path_, "a", 1)), path_ + ": is not a zip file");
  set_bytes("");
  EXPECT_EQ(error_of(read_zip_member(path_, "a", 1)), path_ + ": is not a zip file");
  EXPECT_EQ(error_of(read_zip_member(folder_.path(), "a", 1)), folder_.path() + ": is a folder");
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(error_of(read_zip_member(fifo, "a", 1)), fifo + ": is not a regular file");
}

TEST_F(ZipFileTest, ACutFileIsAnError) {
  write(std::string(10'000, 'x'));
  set_bytes(bytes().substr(0, 60));
  EXPECT_EQ(error_of(read_zip_member(path_, "a.txt", 10)), path_ + ": is not a zip file");
}

TEST_F(ZipFileTest, AFullDiskIsAnError) {
  ZipWriter zip("/dev/full");
  zip.add("a.txt", std::string(3'000'000, 'x'));
  const auto written = zip.finish();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "write the zip file: no space left on device");
}

TEST_F(ZipFileTest, AMissingFolderIsAnError) {
  ZipWriter zip("/nowhere/a.zip");
  zip.add("a.txt", "x");
  const auto written = zip.finish();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "write /nowhere/a.zip: no such file or directory");
}

}  // namespace
}  // namespace distrun
