#include "testsuites/harness/run/verdict.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::IsEmpty;

RankFacts passed(int order = 1) {
  return {.end = ExitedWith{0}, .is_done = true, .assertions = 3, .order = order};
}

RankFacts failed(int order) {
  RankFacts facts = passed(order);
  facts.end = ExitedWith{1};
  facts.failures = {{.file = "/src/a_test.cc", .line = 7, .message = "x is 1\nnot 2"}};
  return facts;
}

RankFacts hung(int order) {
  return {.end = KilledBy{SIGKILL}, .was_ended = true, .assertions = 3, .order = order};
}

AttemptResult judged(std::vector<RankFacts> facts, const TestNeeds& needs = {}) {
  return judge({.needs = needs}, std::move(facts), /*interrupted=*/false);
}

// If rank `odd` of three is wrong, the test fails for that reason.
void expect_fails(const RankFacts& odd, RankStatus status, const std::string& reason) {
  const auto result = judged({passed(), odd, passed()});
  EXPECT_EQ(result.status, TestStatus::kFailed) << reason;
  EXPECT_EQ(result.reason, reason);
  EXPECT_THAT(result.culprits, ElementsAre(1)) << reason;
  EXPECT_EQ(result.ranks[0].status, RankStatus::kPassed);
  EXPECT_EQ(result.ranks[1].status, status) << reason;
  EXPECT_FALSE(result.ranks[1].failures.empty()) << reason;
}

TEST(VerdictTest, PassesIfEveryRankPasses) {
  const auto result = judged({passed(), passed()});
  EXPECT_EQ(result.status, TestStatus::kPassed);
  EXPECT_EQ(result.reason, "");
  EXPECT_THAT(result.culprits, IsEmpty());
  EXPECT_EQ(result.ranks[1].rank, 1);
  EXPECT_EQ(result.ranks[1].assertions, 3);
  EXPECT_THAT(result.ranks[1].failures, IsEmpty());
}

TEST(VerdictTest, FailsIfOneRankFails) {
  expect_fails(failed(1), RankStatus::kFailed, "rank 1 failed: a_test.cc:7: x is 1 not 2");
  RankFacts throws = failed(1);
  throws.failures = {{.file = "", .line = 0, .message = "an exception"}};
  expect_fails(throws, RankStatus::kFailed, "rank 1 failed: an exception");
}

TEST(VerdictTest, TheReasonHasNoTracebackOfPython) {
  RankFacts throws = failed(1);
  throws.failures = {
      {.message = "ValueError: no\nvalue\n\nTraceback (most recent call last):\n  f"}};
  expect_fails(throws, RankStatus::kFailed, "rank 1 failed: ValueError: no value");
}

TEST(VerdictTest, FailsIfARankMakesNoAssertion) {
  RankFacts facts = passed();
  facts.assertions = 0;
  expect_fails(facts, RankStatus::kFailed,
               "rank 1 failed: made no assertion: a test that asserts nothing cannot fail");
}

TEST(VerdictTest, FailsIfASignalKillsARankEvenAfterItsTest) {
  RankFacts facts = passed();
  facts.end = KilledBy{SIGSEGV};
  expect_fails(facts, RankStatus::kCrashed, "rank 1 crashed: signal SIGSEGV (11)");
  facts.crashed_in = "load (my_test.py:12)";
  expect_fails(facts, RankStatus::kCrashed,
               "rank 1 crashed: signal SIGSEGV (11) in load (my_test.py:12)");
}

TEST(VerdictTest, FailsIfARankExitsDuringItsTestWithAnyCode) {
  for (const int code : {0, 5}) {
    RankFacts facts = passed();
    facts.is_done = false;
    facts.end = ExitedWith{code};
    expect_fails(facts, RankStatus::kExited,
                 "rank 1 exited during its test: exit code " + std::to_string(code));
  }
}

// A failure may not have been reported.
TEST(VerdictTest, FailsIfARankExitsWithANonzeroCode) {
  RankFacts facts = passed();
  facts.end = ExitedWith{1};
  expect_fails(facts, RankStatus::kFailed,
               "rank 1 failed: its test finished, but it ended with exit code 1");
}

TEST(VerdictTest, FailsIfARankWritesToTheResultChannel) {
  RankFacts facts = passed();
  facts.sent_garbage = true;
  expect_fails(facts, RankStatus::kFailed, "rank 1 failed: wrote into the result channel");
}

TEST(VerdictTest, FailsIfARankLeaksProcesses) {
  RankFacts facts = passed();
  facts.leaked = {"12 (sleep)", "13 (sh)"};
  expect_fails(facts, RankStatus::kFailed, "rank 1 failed: leaked processes: 12 (sleep), 13 (sh)");
}

TEST(VerdictTest, FailsIfARankCannotStart) {
  expect_fails({.not_started = "no memory"}, RankStatus::kFailed,
               "rank 1 failed: could not be started: no memory");
}

TEST(VerdictTest, FailsIfTheHostIsLost) {
  RankFacts facts = passed();
  facts.host_lost = true;
  facts.is_done = false;
  expect_fails(facts, RankStatus::kCrashed, "rank 1 crashed: the process that forked it is lost");
}

TEST(VerdictTest, FailsIfARankDoesNotExitAfterItsTest) {
  RankFacts facts = hung(1);
  facts.is_done = true;
  expect_fails(facts, RankStatus::kTimedOut, "rank 1 did not exit after its test finished");
}

TEST(VerdictTest, TheFirstRankToFailIsTheCulpritAndHangsAreConsequences) {
  const auto result = judged({hung(2), failed(4), failed(3), hung(1)});
  EXPECT_EQ(result.reason, "rank 2 failed: a_test.cc:7: x is 1 not 2");
  EXPECT_THAT(result.culprits, ElementsAre(2, 1, 0, 3));
  EXPECT_EQ(result.ranks[0].status, RankStatus::kTimedOut);
  EXPECT_EQ(result.ranks[0].end, "killed by distrun");
}

TEST(VerdictTest, NamesHungRanksIfNoneFails) {
  const auto result = judge({}, {hung(2), passed(), hung(1)}, /*interrupted=*/false);
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "timed out: ranks 0, 2 hung");
}

TEST(VerdictTest, ReportsWhereHungRanksAre) {
  const auto reason = [](const std::string& where, bool interrupted = false) {
    return judge({}, {hung(2), passed(), hung(1)}, interrupted, where).reason;
  };
  EXPECT_EQ(reason("ranks 0, 2 in load (a.cc:1)"), "timed out: ranks 0, 2 hung in load (a.cc:1)");
  EXPECT_EQ(reason("ranks 0, 2 stopped (SIGSTOP)"), "timed out: ranks 0, 2 stopped (SIGSTOP)");
  EXPECT_EQ(reason("rank 2 in load (a.cc:1); rank 0 in send (a.cc:2)"),
            "timed out: ranks 0, 2 hung: rank 2 in load (a.cc:1); rank 0 in send (a.cc:2)");
  EXPECT_EQ(reason("ranks 0, 2 in load (a.cc:1)", /*interrupted=*/true),
            "the run was interrupted before the test ended; ranks 0, 2 in load (a.cc:1)");
}

// The facts of a rank that ran `count` equal collectives.
RankFacts with(RankFacts facts, const char* op, int count, bool has_ended = true) {
  facts.collectives =
      CollectiveRecord{.stretches = {{"0",
                                      "default_pg",
                                      {.op = op, .sizes = {{3}}, .dtype = "Float", .count = count},
                                      has_ended}}};
  return facts;
}

TEST(VerdictTest, BlamesTheRankThatHungRanksWaitFor) {
  const std::vector<RankFacts> ranks = {with(hung(1), "allreduce", 2, false),
                                        with(passed(), "allreduce", 1),
                                        with(hung(1), "allreduce", 2, false)};
  const std::string what =
      "rank 1 had not entered collective 2 of the default group, allreduce of Float [3], in which "
      "ranks 0, 2 waited";
  const auto result = judged(ranks);
  EXPECT_EQ(result.reason, "timed out: ranks 0, 2 hung: " + what);
  EXPECT_THAT(result.culprits, ElementsAre(1, 0, 2));
  EXPECT_EQ(judged(ranks, {.ranks = 3, .collectives_may_differ = true}).reason, result.reason);
  EXPECT_EQ(judge({}, ranks, /*interrupted=*/true).reason,
            "the run was interrupted before the test ended; " + what);
}

TEST(VerdictTest, FailsIfPassingRanksRanDifferentCollectives) {
  const std::vector<RankFacts> ranks = {with(passed(), "allreduce", 1),
                                        with(passed(), "allreduce", 1),
                                        with(passed(), "broadcast", 1)};
  const auto result = judged(ranks);
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(
      result.reason,
      "ranks disagree: rank 2 ran broadcast of Float [3] as collective 1 of the default group, "
      "ranks 0, 1 ran allreduce of Float [3]; declare collectives_may_differ if this is "
      "intended");
  EXPECT_THAT(result.culprits, ElementsAre(2));
  EXPECT_THAT(judge({.file = "/src/my_test.py"}, ranks, /*interrupted=*/false).reason,
              EndsWith("; set distrun_collectives_may_differ = True if this is intended"));
}

TEST(VerdictTest, WarnsIfRanksRanDifferentCollectivesThatMayDiffer) {
  const std::vector<RankFacts> ranks = {with(passed(), "allreduce", 1),
                                        with(passed(), "allreduce", 1),
                                        with(passed(), "broadcast", 1)};
  const auto result = judged(ranks, {.ranks = 3, .collectives_may_differ = true});
  EXPECT_EQ(result.status, TestStatus::kPassed);
  EXPECT_EQ(result.reason,
            "ranks disagree, which collectives_may_differ allows: rank 2 ran broadcast of Float "
            "[3] as collective 1 of the default group, ranks 0, 1 ran allreduce of Float [3]");
  EXPECT_THAT(result.culprits, IsEmpty());
  EXPECT_EQ(judged({passed()}, {.ranks = 1, .collectives_may_differ = true}).reason, "");
}

// Survivors may notice a lost peer in different collectives.
TEST(VerdictTest, DoesNotCompareCollectivesIfARankMustDie) {
  const TestNeeds needs{.ranks = 3, .expected_ends = {{2, KilledBy{SIGKILL}}}};
  EXPECT_EQ(judged({with(passed(), "allreduce", 2),
                    with(passed(), "allreduce", 1),
                    {.end = KilledBy{SIGKILL}}},
                   needs)
                .status,
            TestStatus::kPassed);
}

RankFacts thrown(int order) {
  RankFacts facts = failed(order);
  facts.failures = {{.file = "", .line = 0, .message = "an exception"}};
  return facts;
}

RankFacts lost_a_peer(int order, const char* message) {
  RankFacts facts = thrown(order);
  facts.failures.front().message = message;
  return facts;
}

TEST(VerdictTest, ARankThatLostAPeerComesAfterThePeer) {
  for (const char* message :
       {"all_reduce on rank 0 of 3: the connection to rank 2 was lost: [pair.cc:534] …",
        "[pair.cc:534] Connection closed by peer [127.0.0.1]:4711",
        "[pair.cc:462] readv [127.0.0.1]:4711: Connection reset by peer",
        "[pair.cc:309] writev [127.0.0.1]:4711: Broken pipe",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process "
        "exiting: remote process exited or there was a network error"}) {
    const RankFacts exited{.end = ExitedWith{5}, .assertions = 1, .order = 3};
    const auto result = judged({lost_a_peer(1, message), lost_a_peer(2, message), exited});
    EXPECT_EQ(result.reason, "rank 2 exited during its test: exit code 5");
    EXPECT_THAT(result.culprits, ElementsAre(2, 0, 1));
    EXPECT_THAT(judged({lost_a_peer(1, message), failed(2)}).culprits, ElementsAre(1, 0));
  }
}

TEST(VerdictTest, AnotherExceptionStaysInOrder) {
  EXPECT_THAT(judged({thrown(1), failed(2)}).culprits, ElementsAre(0, 1));
  // An assertion may quote the error.
  RankFacts asserted = failed(1);
  asserted.failures.front().message = "Connection closed by peer";
  EXPECT_THAT(judged({asserted, failed(2)}).culprits, ElementsAre(0, 1));
}

TEST(VerdictTest, ARankThatWaitsForTheLostPeerIsStillAConsequence) {
  const auto result = judged({hung(3),
                              lost_a_peer(2, "Connection closed by peer"),
                              {.end = KilledBy{SIGSEGV}, .assertions = 1, .order = 4}});
  EXPECT_THAT(result.culprits, ElementsAre(2, 1, 0));
}

const char* const kDifferent =
    "ranks disagree: rank 2 ran broadcast of Float [3] as collective 1 of the default group, ranks "
    "0, 1 ran allreduce of Float [3]";

// The exception may be a consequence; the failed assertion is not.
TEST(VerdictTest, DifferentCollectivesAreTheHeadlineOfAnException) {
  const auto reason = [](const RankFacts& first, const TestNeeds& needs = {}) {
    return judged({with(first, "allreduce", 1), with(hung(2), "allreduce", 1),
                   with(hung(2), "broadcast", 1)},
                  needs)
        .reason;
  };
  EXPECT_EQ(reason(thrown(1)), kDifferent + std::string("; rank 0 failed: an exception"));
  EXPECT_EQ(reason(failed(1)),
            std::string("rank 0 failed: a_test.cc:7: x is 1 not 2; ") + kDifferent);
  EXPECT_EQ(reason(thrown(1), {.collectives_may_differ = true}), "rank 0 failed: an exception");
}

// The rank that failed early has not run the later collectives of its peers.
TEST(VerdictTest, MissingCollectivesAreNotTheHeadlineOfAFailure) {
  EXPECT_EQ(judged({with(thrown(1), "allreduce", 1), with(hung(2), "allreduce", 2, false)}).reason,
            "rank 0 failed: an exception");
}

TEST(VerdictTest, BlamesARankThatPassedWithoutACollectiveOfAFailedRank) {
  const auto result = judged({with(thrown(2), "allreduce", 2), with(passed(), "allreduce", 1)});
  EXPECT_EQ(result.reason,
            "ranks disagree: rank 1 had not run collective 2 of the default group, allreduce of "
            "Float [3], which rank 0 ran; rank 0 failed: an exception");
  EXPECT_THAT(result.culprits, ElementsAre(1, 0));
}

TEST(VerdictTest, SkippedRanksMayRunDifferentCollectives) {
  RankFacts skips = with(passed(), "allreduce", 1);
  skips.skip_reason = "no network";
  EXPECT_EQ(judged({skips, with(skips, "broadcast", 1)}).status, TestStatus::kSkipped);
}

TEST(VerdictTest, AReportedFailureCountsThoughTheRankHangs) {
  RankFacts facts = hung(1);
  facts.failures = failed(1).failures;
  expect_fails(facts, RankStatus::kFailed, "rank 1 failed: a_test.cc:7: x is 1 not 2");
}

TEST(VerdictTest, IsSkippedIfAllRanksSkip) {
  RankFacts skips = passed();
  skips.assertions = 0;
  skips.skip_reason = "no network";
  const auto result = judged({skips, skips});
  EXPECT_EQ(result.status, TestStatus::kSkipped);
  EXPECT_EQ(result.reason, "no network");
}

TEST(VerdictTest, SkipDoesNotExcuseAFailure) {
  RankFacts skips = passed();
  skips.skip_reason = "no network";
  EXPECT_EQ(outcome_of({}, 0, skips), RankOutcome::kSkipped);
  const auto reason_of = [](const RankFacts& facts) {
    EXPECT_EQ(outcome_of({}, 0, facts), RankOutcome::kFailed);
    return judged({facts}).reason;
  };
  RankFacts fails = skips, crashes = skips, leaves = skips;
  fails.failures = failed(1).failures;
  crashes.end = KilledBy{SIGSEGV};
  leaves.leaked = {"12 (sleep)"};
  EXPECT_EQ(reason_of(fails), "rank 0 failed: a_test.cc:7: x is 1 not 2");
  EXPECT_EQ(reason_of(crashes), "rank 0 crashed: signal SIGSEGV (11)");
  EXPECT_EQ(reason_of(leaves), "rank 0 failed: leaked processes: 12 (sleep)");
}

TEST(VerdictTest, DivergesIfOnlySomeRanksSkip) {
  RankFacts skips = passed();
  skips.skip_reason = "no network";
  const auto result = judged({passed(), skips, passed()});
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "diverged: rank 1 skipped, ranks 0, 2 did not");
  EXPECT_THAT(result.culprits, ElementsAre(1));
}

TEST(VerdictTest, DivergesIfOthersWaitForARankThatSkipped) {
  RankFacts skips = passed();
  skips.skip_reason = "no network";
  const auto result = judged({hung(2), skips, passed()});
  EXPECT_EQ(result.status, TestStatus::kFailed);
  EXPECT_EQ(result.reason, "diverged: rank 1 skipped, ranks 0, 2 did not");
  EXPECT_THAT(result.culprits, ElementsAre(1, 0));
}

TEST(VerdictTest, AFailureOutranksADivergence) {
  RankFacts skips = passed();
  skips.skip_reason = "no network";
  EXPECT_EQ(judged({skips, failed(2)}).reason, "rank 1 failed: a_test.cc:7: x is 1 not 2");
}

TEST(VerdictTest, AnExpectedEndMustHappen) {
  const TestNeeds needs{.ranks = 2, .expected_ends = {{1, KilledBy{SIGKILL}}}};
  const RankFacts killed{.end = KilledBy{SIGKILL}};
  EXPECT_EQ(judged({passed(), killed}, needs).status, TestStatus::kPassed);
  EXPECT_EQ(judged({passed(), passed()}, needs).reason,
            "rank 1 failed: expected signal SIGKILL (9), but it ended with exit code 0");
  RankFacts with_its_host = killed;
  with_its_host.host_lost = true;
  EXPECT_EQ(judged({passed(), with_its_host}, needs).status, TestStatus::kFailed);
  // Being killed by the runner does not count.
  EXPECT_EQ(judged({passed(), hung(1)}, needs).reason,
            "rank 1 failed: expected signal SIGKILL (9), but it did not end on its own");
  EXPECT_EQ(judged({killed, killed}, needs).status, TestStatus::kFailed);
}

TEST(VerdictTest, ALateEndIsNotAnExpectedEnd) {
  RankFacts late = passed();
  late.was_late = true;
  late.is_done = false;
  expect_fails(late, RankStatus::kTimedOut, "timed out: rank 1 hung");
  late.end = KilledBy{SIGKILL};
  const TestNeeds needs{.expected_ends = {{0, KilledBy{SIGKILL}}}};
  EXPECT_EQ(judged({late}, needs).reason,
            "rank 0 failed: expected signal SIGKILL (9), but it did not end on its own");
}

TEST(VerdictTest, AReasonIsOneLineOfBoundedLength) {
  RankFacts facts = failed(1);
  facts.failures[0].message = "Expected:\n  " + std::string(300, 'x');
  EXPECT_EQ(judged({facts}).reason,
            "rank 0 failed: a_test.cc:7: Expected: " + std::string(150, 'x') + "…");
}

TEST(VerdictTest, FailuresBeforeAnExpectedEndCount) {
  const TestNeeds needs{.expected_ends = {{0, KilledBy{SIGKILL}}}};
  RankFacts facts{.end = KilledBy{SIGKILL}};
  facts.failures = failed(1).failures;
  EXPECT_EQ(judged({facts}, needs).reason, "rank 0 failed: a_test.cc:7: x is 1 not 2");
  facts = {.end = KilledBy{SIGKILL}, .sent_garbage = true};
  EXPECT_EQ(judged({facts}, needs).status, TestStatus::kFailed);
  facts = {.end = KilledBy{SIGKILL}, .leaked = {"12 (sleep)"}};
  EXPECT_EQ(judged({facts}, needs).status, TestStatus::kFailed);
}

TEST(VerdictTest, AnExpectedExitMustComeBeforeTheTestFinishes) {
  const TestNeeds needs{.expected_ends = {{0, ExitedWith{0}}}};
  EXPECT_EQ(judged({{.end = ExitedWith{0}}}, needs).status, TestStatus::kPassed);
  EXPECT_EQ(judged({passed()}, needs).reason,
            "rank 0 failed: expected exit code 0, but its test finished first");
}

TEST(VerdictTest, AnInterruptedRunHasNoVerdict) {
  const auto result = judge({}, {hung(1), passed()}, /*interrupted=*/true);
  EXPECT_EQ(result.status, TestStatus::kInterrupted);
  EXPECT_EQ(result.reason, "the run was interrupted before the test ended");
  EXPECT_EQ(result.ranks[0].failures.at(0).message, "was running when the run was interrupted");
}

TEST(VerdictTest, ReportsUnusualEndsOfRanks) {
  const auto end_of = [](const RankFacts& facts) { return judged({facts}).ranks[0].end; };
  RankFacts crashes = passed(), exits = passed();
  crashes.end = KilledBy{SIGSEGV};
  exits.end = ExitedWith{5};
  EXPECT_EQ(end_of(crashes), "signal SIGSEGV (11)");
  EXPECT_EQ(end_of(exits), "exit code 5");
  EXPECT_EQ(end_of(failed(1)), "");
  EXPECT_EQ(end_of(passed()), "");
}

TEST(VerdictTest, ReportsRanksThatCouldNotBeKilled) {
  RankFacts stuck = hung(1);
  stuck.end.reset();
  EXPECT_EQ(judged({{.assertions = 3}}).reason, "timed out: rank 0 hung");
  EXPECT_EQ(judged({stuck}).ranks[0].end, "could not be killed by distrun");
}

}  // namespace
}  // namespace distrun
