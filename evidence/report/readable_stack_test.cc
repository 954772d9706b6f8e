#include "evidence/report/readable_stack.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

const std::string kLibc = "/usr/lib/libc.so.6", kTorch = "/opt/torch/libtorch_cpu.so";

Frame native(const std::string& function, const std::string& module = "/home/me/train") {
  return {.function = function, .module = module};
}

std::vector<std::string> shown(const std::vector<Frame>& frames) {
  std::vector<std::string> lines;
  for (const Frame& frame : readable(frames)) lines.push_back(described(frame));
  return lines;
}

TEST(ReadableStackTest, OmitsProgramStartAndDispatchFrames) {
  EXPECT_THAT(
      shown({native("_start"), native("", kLibc), native("__libc_start_main", kLibc),
             native("main"), native("at::add", kTorch), native("c10::Dispatcher::call", kTorch),
             native("std::function::operator()", kTorch), native("", kTorch),
             native("c10d::Work::wait", kTorch)}),
      ElementsAre("main (train)", "at::add (libtorch_cpu.so)",
                  "c10d::Work::wait (libtorch_cpu.so)"));
}

TEST(ReadableStackTest, ShowsTheProgramsCallIntoTheCLibrary) {
  EXPECT_THAT(shown({native("main"), native("__select", kLibc), native("__futex_wait", kLibc),
                     native("", kLibc)}),
              ElementsAre("main (train)", "select (libc.so.6)"));
  EXPECT_THAT(shown({native("_start"), native("", kLibc)}), ElementsAre("?? (libc.so.6)"));
  EXPECT_THAT(shown({}), ElementsAre());
}

TEST(ReadableStackTest, OmitsTheFramesOfAnImport) {
  const auto python = [](const std::string& function, const std::string& source) {
    return Frame{.function = function, .source = source, .line = 1};
  };
  EXPECT_THAT(shown({python("<module>", "train.py"),
                     python("_find_and_load", "<frozen importlib._bootstrap>"),
                     python("exec_module", "<frozen importlib._bootstrap_external>"),
                     python("<module>", "slow.py")}),
              ElementsAre("<module> (train.py:1)", "<module> (slow.py:1)"));
}

TEST(ReadableStackTest, CountsRecursion) {
  EXPECT_THAT(
      shown({native("main"), native("walk"), native("walk"), native("walk"), native("end")}),
      ElementsAre("main (train)", "walk ×3 (train)", "end (train)"));
}

TEST(DescribedFrameTest, NamesTheLineOrTheLibrary) {
  EXPECT_EQ(
      described({.function = "f", .source = "/home/me/src/train.cc", .line = 7, .module = "t"}),
      "f (train.cc:7)");
  EXPECT_EQ(described({.function = "f", .module = "/home/me/train"}), "f (train)");
  EXPECT_EQ(described({.function = "f", .source = "sub/train.py", .line = 7}),
            "f (sub/train.py:7)");
  const std::string python = "/opt/venv/lib/python3.11/";
  EXPECT_EQ(described({.function = "f", .source = python + "site-packages/torch/nn.py", .line = 7}),
            "f (torch/nn.py:7)");
  EXPECT_EQ(described({.function = "f", .source = python + "threading.py", .line = 7}),
            "f (threading.py:7)");
  EXPECT_EQ(described({.function = std::string(200, 'f'), .module = "t"}),
            std::string(100, 'f') + "… (t)");
}

TEST(ReadableStackTest, LeavesOutCallsWhoseNamesAreTooLongToDemangle) {
  const Frame wait = native("c10d::Work::wait", kTorch);
  EXPECT_EQ(readable({native("_ZN3c104impl18BoxedKernelWrapperIFNS_13intrusive_ptr", kTorch),
                      native("_ZN3c1011BoxedKernel19make_boxed_functionIXadL", kTorch),
                      native("_ZN8pybind1112cpp_function", kTorch), wait}),
            std::vector{wait});
}

TEST(IdleThreadTest, WaitsForWorkInALibrary) {
  EXPECT_TRUE(is_idle(
      {native("start_thread", kLibc), native("c10d::ProcessGroupGloo::runLoop", kTorch),
       native("std::condition_variable::wait", kTorch), native("pthread_cond_wait", kLibc)}));
  EXPECT_TRUE(is_idle({native("start_thread", kLibc), native("futex", kLibc)}));
  EXPECT_FALSE(is_idle({native("c10d::ProcessGroupGloo::runLoop", kTorch),
                        native("c10d::AsyncAllreduceWork::allreduce", kTorch),
                        native("pthread_cond_wait", kLibc)}));
  EXPECT_TRUE(is_idle({native("c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop", kTorch),
                       native("c10d::TCPStore::check", kTorch), native("recv", kLibc)}));
  EXPECT_TRUE(is_idle({native("ncclProxyService", "libnccl.so.2"), native("poll", kLibc)}));
  EXPECT_TRUE(is_idle({native("rasThreadMain", "libnccl.so.2"), native("poll", kLibc)}));
  EXPECT_FALSE(is_idle({{.function = "work", .source = "a.py", .line = 1}, native("read", kLibc)}));
}

}  // namespace
}  // namespace distrun
