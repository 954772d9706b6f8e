#include "testsuites/harness/packet_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace distrun {
namespace {

class PacketSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = make_packet_sockets().value();
    here_ = std::move(pair.first);
    there_ = std::move(pair.second);
  }
  UniqueFd here_, there_;
};

TEST_F(PacketSocketTest, APacketComesWholeWithItsDescriptors) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  ASSERT_TRUE(send_packet(here_.get(), std::string(100'000, 'a'), {to.get()}));
  ASSERT_TRUE(send_packet(here_.get(), "b", {}));
  auto first = receive_packet(there_.get()).value();
  EXPECT_EQ(first.bytes, std::string(100'000, 'a'));
  ASSERT_EQ(first.descriptors.size(), 1u);
  EXPECT_NE(::fcntl(first.descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(first.descriptors[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(from.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  const auto second = receive_packet(there_.get()).value();
  EXPECT_EQ(second.bytes, "b");
  EXPECT_FALSE(second.has_ended);
}

TEST_F(PacketSocketTest, TheEndIsSeenOnBothSides) {
  ASSERT_TRUE(send_packet(here_.get(), "last", {}));
  here_.reset();
  EXPECT_EQ(receive_packet(there_.get()).value().bytes, "last");
  EXPECT_TRUE(receive_packet(there_.get()).value().has_ended);
  EXPECT_FALSE(send_packet(there_.get(), "too late", {}));
}

TEST_F(PacketSocketTest, OneThatDoesNotBlockSaysThatThereIsNothing) {
  ::fcntl(there_.get(), F_SETFL, O_NONBLOCK);
  const auto packet = receive_packet(there_.get());
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().kind, ErrorKind::kTimedOut);
}

TEST_F(PacketSocketTest, WhatIsTooLargeIsRefused) {
  EXPECT_FALSE(send_packet(here_.get(), std::string(kPacketBytesMax + 1, 'a'), {}));
  EXPECT_FALSE(send_packet(here_.get(), "", std::vector<int>(kPacketDescriptorsMax + 1, 0)));
}

}  // namespace
}  // namespace distrun
