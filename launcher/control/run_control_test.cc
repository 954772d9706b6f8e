// The two ends of `distrun stacks`: RunServer and ask_run().
#include <atomic>
#include <future>
#include <thread>

#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "launcher/control/run_client.h"
#include "launcher/control/run_server.h"

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::Contains;
using ::testing::Not;

TEST(RunAddressTest, SurvivesARoundTrip) {
  const RunAddress run{7, 4710, 4711};
  EXPECT_EQ(socket_name(run), "distrun/run/7/4710/4711");
  EXPECT_EQ(run_address_from(socket_name(run)), run);
  for (const char* other : {"", "distrun/run/", "distrun/run/1", "distrun/run/1/2",
                            "distrun/run/1/2/x", "other/1/2/3"}) {
    EXPECT_EQ(run_address_from(other), std::nullopt) << other;
  }
}

// The server runs in its own thread. Invalid process ids keep the tests apart.
class RunControlTest : public ::testing::Test {
 protected:
  void serve(RunServer::Answer answer) {
    auto opened = RunServer::open(io_, run_, std::move(answer));
    ASSERT_TRUE(opened) << opened.error().message;
    server_ = std::move(*opened);
    thread_ = std::thread([this] { io_.run(); });
  }
  void TearDown() override {
    boost::asio::post(io_, [this] { server_.reset(); });
    if (thread_.joinable()) thread_.join();
  }

  static int next() {
    static std::atomic<int> tests = 0;
    return ++tests;
  }

  const RunAddress run_{own_pid_namespace(), 1'000'000'000 + next(), ::getpid()};
  boost::asio::io_context io_;
  std::unique_ptr<RunServer> server_;
  std::thread thread_;
};

TEST_F(RunControlTest, AnswersWithAnyNumberOfLines) {
  const std::string long_text(3'000'000, 'x');
  serve([&](std::string_view question) -> std::optional<std::string> {
    return question == "stacks" ? std::optional(long_text) : std::nullopt;
  });
  EXPECT_THAT(runs_here(), Contains(run_));
  EXPECT_EQ(ask_run(run_, "stacks", seconds(30)).value(), long_text);
  EXPECT_EQ(ask_run(run_, "stacks", seconds(30)).value(), long_text) << "again";
}

TEST_F(RunControlTest, RefusesQuestionsThatItDoesNotKnow) {
  serve([](std::string_view) { return std::nullopt; });
  EXPECT_EQ(ask_run(run_, "weather", seconds(30)).error().message,
            "the run uses a version of distrun that does not support this request");
  EXPECT_EQ(ask_run(run_, std::string(1000, 'x'), seconds(30)).error().message,
            "the run belongs to another user, or it has just ended");
}

TEST_F(RunControlTest, ReportsThatARunHasEnded) {
  EXPECT_THAT(runs_here(), Not(Contains(run_)));
  const auto answer = ask_run(run_, "stacks", seconds(30));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(answer.error().message, "the run has ended");
}

TEST_F(RunControlTest, WaitForAnAnswerTimesOut) {
  auto opened = RunServer::open(io_, run_, nullptr);
  ASSERT_TRUE(opened);
  server_ = std::move(*opened);  // The kernel accepts the connection; no process serves it.
  const auto answer = ask_run(run_, "stacks", std::chrono::milliseconds(50));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "the run does not answer: it is suspended, or busy");
  thread_ = std::thread([this] { io_.run(); });
}

TEST_F(RunControlTest, AnOpenConnectionDoesNotOutliveTheServer) {
  std::promise<void> asked;
  serve([&](std::string_view) {
    asked.set_value();
    return std::optional<std::string>(std::string(3'000'000, 'x'));
  });
  auto answer = std::async(std::launch::async, [&] { return ask_run(run_, "s", seconds(30)); });
  asked.get_future().wait();
  boost::asio::post(io_, [this] { server_.reset(); });
  thread_.join();  // The loop ends: no handler is left.
  static_cast<void>(answer.get());
}

}  // namespace
}  // namespace distrun
