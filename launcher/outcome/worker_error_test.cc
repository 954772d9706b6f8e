#include "launcher/outcome/worker_error.h"

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/crash/error_file.h"
#include "common/test/folder.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class WorkerErrorTest : public ::testing::Test {
 protected:
  WorkerErrorTest() {
    path_ = folder_ + "/error.json";
    environment_.set("TORCHELASTIC_ERROR_FILE", folder_ + "/own.json");
  }

  std::optional<ErrorReport> own() const { return read_error_file(folder_ + "/own.json").value(); }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  std::string path_;
  Environment environment_;
};

TEST_F(WorkerErrorTest, DemanglesNames) {
  ASSERT_TRUE(write_error_file(path_, {.message = "E: x", .callstack = "#0 _Z5trainv+0x1"}));
  const auto error = read_worker_error(path_);
  EXPECT_EQ(error.text, "E: x");
  EXPECT_EQ(error.callstack, "#0 train()+0x1");
}

TEST_F(WorkerErrorTest, KeepsBothEndsOfALongReport) {
  ASSERT_TRUE(
      write_error_file(path_, {.message = std::string(300'000, 'm'),
                               .callstack = "first\n" + std::string(300'000, '\n') + "last"}));
  const auto error = read_worker_error(path_);
  EXPECT_LT(error.text.size() + error.callstack.size(), 40'000u);
  EXPECT_TRUE(error.callstack.starts_with("first\n") && error.callstack.ends_with("\nlast"));
}

TEST_F(WorkerErrorTest, KeepsTheEndOfALongLine) {
  ASSERT_TRUE(write_error_file(
      path_, {.message = "E", .callstack = "first\n" + std::string(300'000, 'x') + " last\n"}));
  EXPECT_TRUE(read_worker_error(path_).callstack.ends_with("x last\n"));
}

TEST_F(WorkerErrorTest, ReportsMalformedFilesAndDoesNotCopyThem) {
  EXPECT_EQ(read_worker_error(path_).text, "");
  std::ofstream(path_) << "{\"message\": {\"mes";
  EXPECT_THAT(read_worker_error(path_).text, HasSubstr("error.json: it is not JSON"));
  EXPECT_TRUE(hand_on_worker_error(path_, ExitedWith{1}, environment_));
  EXPECT_EQ(own(), std::nullopt);
}

TEST_F(WorkerErrorTest, CopiesTheExitCodeOrSignalAsErrorCode) {
  ASSERT_TRUE(write_error_file(path_, {.message = "E: x"}));
  ASSERT_TRUE(hand_on_worker_error(path_, ExitedWith{7}, environment_));
  EXPECT_EQ(own()->message, "E: x");
  EXPECT_EQ(own()->error_code, 7);
  ASSERT_TRUE(hand_on_worker_error(path_, KilledBy{SIGSEGV}, environment_));
  EXPECT_EQ(own()->error_code, -SIGSEGV);
}

TEST_F(WorkerErrorTest, CopiesNothingWithoutTheVariable) {
  ASSERT_TRUE(write_error_file(path_, {.message = "E: x"}));
  EXPECT_TRUE(hand_on_worker_error(path_, ExitedWith{7}, {}));
  environment_.set("TORCHELASTIC_ERROR_FILE", "");
  EXPECT_TRUE(hand_on_worker_error(path_, ExitedWith{7}, environment_));
  environment_.set("TORCHELASTIC_ERROR_FILE", folder_ + "/no/such");
  EXPECT_FALSE(hand_on_worker_error(path_, ExitedWith{7}, environment_));
}

}  // namespace
}  // namespace distrun
