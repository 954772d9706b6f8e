#include "testsuites/testing/leftovers.h"

#include <array>
#include <atomic>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun {
namespace {

TEST(LeftoversTest, AFileNamesTheProcessWhoseNumberItContains) {
  EXPECT_TRUE(names_process("torch_4711_81_0", 4711));
  EXPECT_TRUE(names_process("4711", 4711));
  EXPECT_TRUE(names_process("x14711_4711", 4711));
  EXPECT_FALSE(names_process("torch_14711_81", 4711));
  EXPECT_FALSE(names_process("torch_47110_81", 4711));
  EXPECT_FALSE(names_process("", 4711));
}

TEST(LeftoversTest, ThreadsOfLibTorchAndGlooAreKnownByTheirNames) {
  EXPECT_TRUE(is_of_libtorch("pt_autograd_0"));
  EXPECT_TRUE(is_of_libtorch("gloo_tcp_loop"));
  EXPECT_FALSE(is_of_libtorch("worker"));
}

TEST(LeftoversTest, AnOpenDescriptorIsListedWithItsFile) {
  const int fd = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(leftovers_now().descriptors.at(fd), "/dev/zero");
  ::close(fd);
  EXPECT_FALSE(leftovers_now().descriptors.contains(fd));
}

TEST(LeftoversTest, AForkLeavesNothing) {
  Leftovers before = leftovers_now();
  before.process += 1;
  before.threads.clear();
  EXPECT_TRUE(new_leftovers(before).empty());
}

TEST(LeftoversTest, WhatEndsIsNotLeft) {
  const Leftovers before = leftovers_now();
  ::close(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(new_leftovers(before).empty());
}

// As in LibTorch 2.11, which gives the thread no name.
TEST(LeftoversTest, AThreadThatWaitsAsGloosDoesIsOfAGroup) {
  const Leftovers before = leftovers_now();
  const UniqueFd events(::epoll_create1(EPOLL_CLOEXEC));
  std::atomic<bool> ends = false;
  std::thread loop([&] {
    std::array<epoll_event, 64> found;
    while (!ends) ::epoll_wait(events.get(), found.data(), found.size(), 10);
  });
  EXPECT_TRUE(new_leftovers(before).empty());
  ends = true;
  loop.join();
}

}  // namespace
}  // namespace distrun
