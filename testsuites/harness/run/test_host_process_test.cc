// Test hosts that misbehave (fake_test_host.cc).
#include "testsuites/harness/run/test_host_process.h"

#include "launcher/process/worker_process.h"
#include "testsuites/harness/test/fake_host.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::texts;

class HostTest : public testing::FakeHostFixture {};

TEST_F(HostTest, LosesAHostThatSendsMalformedMessages) {
  const auto problem = [&](const char* name) { return problem_of(options_with(name)); };
  EXPECT_THAT(problem("says_rubbish"), HasSubstr("failed: malformed message"));
  EXPECT_THAT(problem("says_too_much"), HasSubstr("failed: receive a packet: it is too large"));
  EXPECT_THAT(problem("forgets_a_descriptor"),
              HasSubstr("malformed message: wrong number of descriptors"));
  EXPECT_THAT(problem("has_a_broken_list"), HasSubstr("failed: "));
  EXPECT_THAT(problem("has_its_list_in_a_pipe"), HasSubstr("failed: read the list of tests: "));
  EXPECT_THAT(
      problem("prints_and_ends"),
      EndsWith("failed: it ended without listing its tests (exit code 3); a test program must link "
               "distrun::testing_main\n"
               "no memory left\n"));
  EXPECT_FALSE(has_children()) << "it has been reaped";
}

TEST_F(HostTest, FailsIfTheProgramCannotStart) {
  TestRunner::Options its = options();
  its.programs = {"/no/such/program"};
  EXPECT_THAT(problem_of(its), StartsWith("start /no/such/program: "));
}

TEST_F(HostTest, TimesOutIfTheHostDoesNotListItsTests) {
  for (const char* name : {"says_nothing", "closes_its_socket"}) {
    TestRunner::Options its = options_with(name);
    its.host_timeout = milliseconds(100);
    EXPECT_THAT(problem_of(its), HasSubstr("it did not list its tests within 0.1 s; a test"))
        << name;
  }
  EXPECT_FALSE(has_children()) << "it has been ended and reaped";
}

TEST_F(HostTest, TestsMayTakeLongerThanTheHostTimeOut) {
  TestRunner::Options its = options();
  its.host_timeout = seconds(1);
  timeout_ = milliseconds(1200);
  run_one("hangs_for_ever", its);
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(HostTest, ReplacesAHostThatEndsBeforeTheFirstTest) {
  hosts_are_started_ = [] {
    siginfo_t ended{};
    EXPECT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
  };
  const auto results = run(the({"passes"}), options_with("ends_when_it_has_begun"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed"));
}

TEST_F(HostTest, AHostThatEndsBeforeARequestDoesNotFailTheTest) {
  const auto results = run(
      [&](const auto& tests) {
        host_.let_one_go();
        siginfo_t ended{};
        EXPECT_EQ(::waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0);
        return the({"passes"})(tests);
      },
      options_with("ends_when_let"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed"));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("failed: exit code 3")));
}

TEST_F(HostTest, GivesUpAHostThatEndsTooOften) {
  TestRunner::Options its = options();
  its.programs = {host("ends_when_asked"), FAKE_TEST_HOST};
  its.jobs = 1;
  its.keeps_order = true;
  its.host_losses_max = 2;
  const auto results =
      run(the({"passes", "passes", "passes", "passes", "passes", "passes@1"}), its);
  ASSERT_THAT(results, SizeIs(6));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(results[i].status, TestStatus::kFailed);
    EXPECT_THAT(results[i].reason,
                HasSubstr(i < 3 ? "the process that forked it is lost" : "it ended too often"));
  }
  EXPECT_EQ(results[5].status, TestStatus::kPassed) << "of another host";
  EXPECT_EQ(summary_.failed, 5);
}

TEST_F(HostTest, CountsOnlyConsecutiveLosses) {
  TestRunner::Options its = options();
  its.jobs = 1;
  its.keeps_order = true;
  its.host_losses_max = 2;
  const char* kills = "kills_its_host";
  EXPECT_THAT(texts(run(the({kills, kills, "passes", kills, kills, "passes"}), its)),
              ElementsAre("kills_its_host failed", "kills_its_host failed", "passes passed",
                          "kills_its_host failed", "kills_its_host failed", "passes passed"));
}

TEST_F(HostTest, IgnoresMessagesAboutUnknownRanks) {
  const auto results = run(the({"passes", "passes"}), options_with("tells_of_strangers"));
  EXPECT_THAT(texts(results), ElementsAre("passes passed", "passes passed"));
}

TEST_F(HostTest, IgnoresRepeatedMessages) {
  const auto results = run(the({"leaves_its_output_open"}), options_with("says_ends_twice"));
  ASSERT_THAT(results, SizeIs(1));
  EXPECT_THAT(results[0].reason, StartsWith("rank 0 failed: leaked processes: "));
  EXPECT_THAT(results[0].reason, EndsWith(" (says_ends_twice)"));
}

TEST_F(HostTest, StartsAHostForEachProgram) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, FAKE_TEST_HOST};
  const auto results = run(the({"passes", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("passes passed", "passes passed"));
}

TEST_F(HostTest, ALostHostDoesNotAffectOtherPrograms) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, host("ends_when_asked")};
  on_event_ = [&](TestRunner&, const TestEvent& event) {
    const auto* ended = std::get_if<TestEnded>(&event);
    if (ended && ended->result.test.id == "fake.Rank.passes") passes_when_let_.let_one_go();
  };
  const auto results = run(the({"passes_when_let", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("passes_when_let passed", "passes failed"));
  EXPECT_THAT(notices_, SizeIs(1)) << "nothing had to be run again";
}

// Both hosts have ended, and only one is ready again.
TEST_F(HostTest, TestsWaitForTheirOwnHost) {
  TestRunner::Options its = options();
  its.programs = {FAKE_TEST_HOST, host("says_nothing_the_second_time")};
  its.host_timeout = milliseconds(500);
  its.host_losses_max = 2;
  its.jobs = 2;
  its.keeps_order = true;
  const auto results = run(the({"kills_its_host", "passes@1", "passes", "passes@1"}), its);
  EXPECT_THAT(texts(results), ElementsAre("kills_its_host failed", "passes failed", "passes passed",
                                          "passes failed 0"));
}

TEST_F(HostTest, SendsMoreRequestsThanTheSocketHolds) {
  allow_many_descriptors();
  TestRunner::Options its = options_with("waits_before_it_reads");
  its.jobs = 300;
  on_event_ = [&, begun = 0](TestRunner&, const TestEvent& event) mutable {
    if (std::holds_alternative<AttemptBegun>(event) && ++begun == 300) host_.let_one_go();
  };
  const auto results = run(the(std::vector<std::string>(300, "passes")), its);
  EXPECT_THAT(results, SizeIs(300));
  for (const TestResult& result : results) {
    EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  }
}

}  // namespace
}  // namespace distrun
