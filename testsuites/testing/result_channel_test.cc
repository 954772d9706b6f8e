#include "testsuites/testing/result_channel.h"

#include <csignal>
#include <future>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

namespace distrun {
namespace {

using std::chrono::seconds;

sem_t signals_taken;

// A channel into an unread pipe, and a thread that sends more than the pipe can contain.
class ResultChannelTest : public ::testing::Test {
 protected:
  ResultChannelTest() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    from_.reset(ends[0]);
    channel_ = std::make_unique<ResultChannel>(UniqueFd(ends[1]));
    sender_ = std::thread([this] { channel_->send(SkipAsked{std::string(500'000, 'x')}); });
  }
  ~ResultChannelTest() override { sender_.join(); }

  // On return, the sender holds the channel.
  void wait_until_it_sends() const {
    pollfd some{from_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&some, 1, 30'000), 1);
  }

  void read_what_it_sends() {
    RankFrames frames;
    std::string buffer(65'536, '\0');
    for (;;) {
      const auto size = ::read(from_.get(), buffer.data(), buffer.size());
      ASSERT_GT(size, 0);
      frames.add(std::string_view(buffer).substr(0, static_cast<std::size_t>(size)));
      if (const auto frame = frames.next()) {
        EXPECT_EQ(std::get<SkipAsked>(*frame).reason.size(), 500'000u);
        break;
      }
      ASSERT_FALSE(frames.is_garbage());
    }
    EXPECT_FALSE(frames.is_within_frame()) << "nothing else has come";
  }

  UniqueFd from_;
  std::unique_ptr<ResultChannel> channel_;
  std::thread sender_;
};

TEST_F(ResultChannelTest, GivesUpIfTheChannelStaysTaken) {
  wait_until_it_sends();
  auto other = std::async(std::launch::async, [this] { channel_->send(PlaceTold{"here", {}}); });
  EXPECT_EQ(other.wait_for(seconds(30)), std::future_status::ready);
  read_what_it_sends();
}

TEST_F(ResultChannelTest, ASignalDoesNotTruncateAFrame) {
  ::sem_init(&signals_taken, 0, 0);
  struct sigaction action {};
  action.sa_handler = [](int) { ::sem_post(&signals_taken); };  // write() is not restarted.
  ::sigaction(SIGUSR1, &action, nullptr);
  wait_until_it_sends();
  // The pipe fills quickly; from then on each signal finds the sender waiting.
  for (int i = 0; i < 1000; ++i) {
    ::pthread_kill(sender_.native_handle(), SIGUSR1);
    while (::sem_wait(&signals_taken) != 0) continue;
  }
  ::signal(SIGUSR1, SIG_DFL);
  read_what_it_sends();
}

TEST(ClosedResultChannelTest, SendDoesNotBlock) {
  ResultChannel channel(UniqueFd{});
  channel.send(PlaceTold{"here", {}});
}

}  // namespace
}  // namespace distrun
