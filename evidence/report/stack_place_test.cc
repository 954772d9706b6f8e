#include "evidence/report/stack_place.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Waits = StackPlace::Waits;

const std::string kPackages = "/opt/venv/lib/python3.11/site-packages/";

Frame of_user(const std::string& function, int line = 1) {
  return {.function = function, .source = "train.py", .line = line};
}
Frame of_torch(const std::string& function, const std::string& file) {
  return {.function = function, .source = kPackages + "torch/" + file, .line = 7};
}
Frame in_library(const std::string& function, const std::string& library = "libtorch_cpu.so") {
  return {.function = function, .module = "/opt/torch/" + library};
}
Frame of_program(const std::string& function) {
  return {.function = function, .source = "/home/me/train.cc", .line = 3, .module = "/bin/train"};
}

TEST(StackPlaceTest, IsTheInnermostFunctionOfTheUsersCode) {
  const StackPlace place =
      place_of({of_user("<module>"), of_user("load"), in_library("read", "libc.so.6")});
  EXPECT_EQ(place.text, "load (train.py:1)");
  EXPECT_EQ(place.waits, Waits::kNo);
  EXPECT_EQ(place.path, (std::vector{of_user("<module>"), of_user("load")}));
}

TEST(StackPlaceTest, NamesTheCollectiveAndNotItsWrapper) {
  const StackPlace place =
      place_of({of_user("step"),
                of_torch("_exception_logger.<locals>.wrapper", "distributed/c10d_logger.py"),
                of_torch("all_reduce", "distributed/distributed_c10d.py"),
                in_library("c10d::Work::wait"), in_library("pthread_cond_wait", "libc.so.6")});
  EXPECT_EQ(place.text, "all_reduce, called by step (train.py:1)");
  EXPECT_EQ(place.waits, Waits::kForRanks);
}

TEST(StackPlaceTest, WhoWaitsForAFutureOfACollectiveWaitsForOtherRanks) {
  EXPECT_EQ(place_of({of_user("step"), in_library("c10d::FutureWrappingWork::wait")}).waits,
            Waits::kForRanks);
}

TEST(StackPlaceTest, WhoWaitsForTheGpuWaitsForOtherRanks) {
  const StackPlace place =
      place_of({of_user("step"), of_torch("synchronize", "cuda/__init__.py"),
                in_library("THCPModule_cudaSynchronize"), in_library("cudaDeviceSynchronize")});
  EXPECT_EQ(place.text, "synchronize, called by step (train.py:1)");
  EXPECT_EQ(place.waits, Waits::kForRanks);
}

TEST(StackPlaceTest, NamesTheLibrarysFunctionBelowPythonOnlyIfItWaits) {
  EXPECT_EQ(place_of({of_user("step"), in_library("c10d::Work::wait")}).text,
            "c10d::Work::wait, called by step (train.py:1)");
  EXPECT_EQ(place_of({of_user("step"), in_library("at::mm")}).text, "step (train.py:1)");
}

TEST(StackPlaceTest, GroupUnderConstructionWaitsForTheStore) {
  const StackPlace place = place_of(
      {of_user("main"), of_torch("init_process_group", "distributed/distributed_c10d.py"),
       of_torch("_new_process_group_helper", "distributed/distributed_c10d.py"),
       in_library("c10d::ProcessGroupGloo::ProcessGroupGloo"), in_library("c10d::TCPStore::get")});
  EXPECT_EQ(place.text, "init_process_group, called by main (train.py:1)");
  EXPECT_EQ(place.waits, Waits::kForStore);
}

TEST(StackPlaceTest, DirectCallOfTheStoreIsTheUsersPlace) {
  const StackPlace place = place_of(
      {of_user("meet"), in_library("c10d::TCPStore::get"), in_library("c10d::TCPStore::doWait")});
  EXPECT_EQ(place.text, "meet (train.py:1)");
  EXPECT_EQ(place.waits, Waits::kForStore);
}

TEST(StackPlaceTest, LibrariesLinkedIntoTheProgramAreNotTheUsersCode) {
  const StackPlace place =
      place_of({of_program("main"), of_program("train"), of_program("distrun::all_reduce"),
                in_library("c10d::Work::wait")});
  EXPECT_EQ(place.text, "distrun::all_reduce, called by train (train.cc:3)");
  EXPECT_EQ(place.waits, Waits::kForRanks);
  EXPECT_EQ(place.path, (std::vector{of_program("main"), of_program("train")}));
}

TEST(StackPlaceTest, RecognizesAThreadThatOnlyWaitsForAnother) {
  const Frame join{.function = "Thread.join", .source = "/usr/lib/python3.11/threading.py"};
  EXPECT_TRUE(waits_for_thread({of_user("main"), join, in_library("sem_wait", "libc.so.6")}));
  EXPECT_TRUE(waits_for_thread({of_program("main"), of_program("std::thread::join()")}));
  EXPECT_TRUE(waits_for_thread({of_program("main"), in_library("pthread_join", "libc.so.6")}));
  EXPECT_FALSE(waits_for_thread({of_user("main"), join, of_user("on_signal")}));
  EXPECT_FALSE(waits_for_thread({of_user("main"), of_user("join")}));
  EXPECT_FALSE(waits_for_thread({of_user("main")}));
}

TEST(StackPlaceTest, WithoutUserCodeNamesTheLibraryFunction) {
  EXPECT_EQ(place_of({of_torch("<module>", "run.py"), of_torch("train", "run.py")}).text,
            "<module> (torch/run.py:7)");
  EXPECT_EQ(place_of({of_program("distrun::load"), in_library("read", "libc.so.6")}).text,
            "distrun::load (train.cc:3)");
  EXPECT_EQ(place_of({in_library("read", "libc.so.6")}).text, "read (libc.so.6)");
}

}  // namespace
}  // namespace distrun
