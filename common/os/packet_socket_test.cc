#include "common/os/packet_socket.h"

#include <csignal>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

TEST_F(PacketSocketTest, PacketArrivesWholeWithItsDescriptors) {
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

TEST_F(PacketSocketTest, BothSidesSeeTheEnd) {
  ASSERT_TRUE(send_packet(here_.get(), "last", {}));
  here_.reset();
  EXPECT_EQ(receive_packet(there_.get()).value().bytes, "last");
  EXPECT_TRUE(receive_packet(there_.get()).value().has_ended);
  EXPECT_FALSE(send_packet(there_.get(), "too late", {}));
}

TEST_F(PacketSocketTest, NonBlockingReceiveTimesOutIfThereIsNoPacket) {
  ::fcntl(there_.get(), F_SETFL, O_NONBLOCK);
  const auto packet = receive_packet(there_.get());
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().kind, ErrorKind::kTimedOut);
}

TEST_F(PacketSocketTest, PeerThatClosesWithUnreadPacketsHasEnded) {
  ASSERT_TRUE(send_packet(here_.get(), "not read", {}));
  there_.reset();
  EXPECT_TRUE(receive_packet(here_.get()).value().has_ended);
}

TEST_F(PacketSocketTest, PacketsSentBeforeTheCloseAreReceived) {
  ASSERT_TRUE(send_packet(here_.get(), "not read", {}));
  ASSERT_TRUE(send_packet(there_.get(), "first", {}));
  ASSERT_TRUE(send_packet(there_.get(), "last", {}));
  there_.reset();
  EXPECT_EQ(receive_packet(here_.get()).value().bytes, "first");
  EXPECT_EQ(receive_packet(here_.get()).value().bytes, "last");
  EXPECT_TRUE(receive_packet(here_.get()).value().has_ended);
}

TEST_F(PacketSocketTest, SocketsAreCloseOnExec) {
  for (const UniqueFd* end : {&here_, &there_}) {
    EXPECT_NE(::fcntl(end->get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

sem_t signals_taken;

// Interrupts one call with signals whose handlers do not restart it.
class InterruptedPacketTest : public PacketSocketTest {
 protected:
  InterruptedPacketTest() {
    ::sem_init(&signals_taken, 0, 0);
    struct sigaction action {};
    action.sa_handler = [](int) { ::sem_post(&signals_taken); };
    ::sigaction(SIGUSR1, &action, nullptr);
  }
  ~InterruptedPacketTest() override { ::signal(SIGUSR1, SIG_DFL); }

  static void interrupt(std::thread& thread) {
    for (int i = 0; i < 1000; ++i) {
      ::pthread_kill(thread.native_handle(), SIGUSR1);
      while (::sem_wait(&signals_taken) != 0) continue;
    }
  }
};

TEST_F(InterruptedPacketTest, ReceiveContinues) {
  std::string got;
  std::thread receiver([&] {
    const auto packet = receive_packet(there_.get());
    got = packet ? packet->bytes : packet.error().message;
  });
  interrupt(receiver);
  EXPECT_TRUE(send_packet(here_.get(), "at last", {}));
  receiver.join();
  EXPECT_EQ(got, "at last");
}

TEST_F(InterruptedPacketTest, SendContinues) {
  const std::string large(kPacketBytesMax, 'x');
  ::fcntl(here_.get(), F_SETFL, O_NONBLOCK);
  while (send_packet(here_.get(), large, {})) continue;
  ::fcntl(here_.get(), F_SETFL, 0);
  Result<void> sent;
  std::thread sender([&] { sent = send_packet(here_.get(), large, {}); });
  interrupt(sender);
  ::fcntl(there_.get(), F_SETFL, O_NONBLOCK);
  while (receive_packet(there_.get())) continue;
  sender.join();
  EXPECT_TRUE(sent);
}

TEST_F(PacketSocketTest, SendsDescriptorsWithoutBytesAndRefusesAnEmptyPacket) {
  ASSERT_TRUE(send_packet(here_.get(), "", {here_.get()}));
  const auto packet = receive_packet(there_.get()).value();
  EXPECT_FALSE(packet.has_ended);
  EXPECT_EQ(packet.descriptors.size(), 1u);
  const auto sent = send_packet(here_.get(), "", {});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().message, "send a packet: it is empty");
}

// send_packet() would refuse to send it.
TEST_F(PacketSocketTest, RefusesToReceiveAPacketThatIsTooLarge) {
  const std::string large(kPacketBytesMax + 1, 'a');
  ASSERT_GT(::send(here_.get(), large.data(), large.size(), 0), 0);
  EXPECT_EQ(receive_packet(there_.get()).error().kind, ErrorKind::kInvalidArgument);

  constexpr std::size_t kMany = 2 * kPacketDescriptorsMax;
  alignas(cmsghdr) char control[CMSG_SPACE(kMany * sizeof(int))] = {};
  iovec content{const_cast<char*>("b"), 1};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(kMany * sizeof(int));  // All of them are descriptor 0.
  ASSERT_EQ(::sendmsg(here_.get(), &message, 0), 1);
  EXPECT_EQ(receive_packet(there_.get()).error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(PacketSocketTest, ReportsThatNoDescriptorsAreLeft) {
  ASSERT_TRUE(send_packet(here_.get(), "b", {here_.get(), there_.get()}));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto packet = receive_packet(there_.get());
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().message, "receive a packet: no descriptors are left: raise `ulimit -n`");
}

TEST_F(PacketSocketTest, RefusesToSendAPacketThatIsTooLarge) {
  EXPECT_FALSE(send_packet(here_.get(), std::string(kPacketBytesMax + 1, 'a'), {}));
  EXPECT_FALSE(send_packet(here_.get(), "", std::vector<int>(kPacketDescriptorsMax + 1, 0)));
}

}  // namespace
}  // namespace distrun
