#include "testsuites/harness/report/junit_xml.h"

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

TestsBegun a_run() {
  return {.jobs = 4, .seed = 7, .at = WallTime(std::chrono::seconds(1735689600)), .host = "node7"};
}

TestsEnded with(std::vector<TestResult> results) {
  return {.summary = {.time = std::chrono::milliseconds(1250)}, .results = std::move(results)};
}

// The parsed document.
class Read {
 public:
  explicit Read(const TestsEnded& ended, const TestsBegun& run = a_run())
      : good_(document_.load_string(junit_xml(run, ended).c_str())) {}

  bool is_xml() const { return good_; }
  pugi::xml_node one(const char* path) const { return document_.select_node(path).node(); }
  std::size_t count(const char* path) const { return document_.select_nodes(path).size(); }
  std::string attribute(const char* path, const char* name) const {
    return one(path).attribute(name).value();
  }

 private:
  pugi::xml_document document_;
  bool good_;
};

TEST(JUnitXmlTest, HasTheFormatOfSurefireAndAnt) {
  EXPECT_EQ(
      junit_xml(a_run(), with({failed_test("test_b"), skipped_test("test_c", "needs 2 GPUs")})),
      R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="distrun" tests="2" failures="1" errors="0" time="1.250">
  <testsuite name="gloo.CommTest" tests="2" failures="1" errors="0" skipped="1" time="1.204" timestamp="2025-01-01T00:00:00+00:00" hostname="node7">
    <properties>
      <property name="seed" value="7" />
      <property name="jobs" value="4" />
    </properties>
    <testcase classname="gloo.CommTest" name="test_b" time="1.204" file="suites/comm.cc" line="12">
      <properties>
        <property name="ranks" value="2" />
        <property name="backend" value="gloo" />
        <property name="seed" value="7" />
      </properties>
      <failure message="rank 1 failed: comm.cc:14" type="failed">rank 1 failed: comm.cc:14
rank 1: failed
  suites/comm.cc:14: Expected equality:
        1
        2
rank 0: passed
repeat: distrun test gloo.CommTest.test_b
</failure>
      <system-out>[rank 0] hello
[rank 1] hello
[rank 1] world
</system-out>
    </testcase>
    <testcase classname="gloo.CommTest" name="test_c" time="0.000" file="suites/comm.cc" line="12">
      <properties>
        <property name="ranks" value="2" />
        <property name="backend" value="gloo" />
        <property name="seed" value="7" />
      </properties>
      <skipped message="needs 2 GPUs" />
    </testcase>
  </testsuite>
</testsuites>
)");
}

TEST(JUnitXmlTest, ASuiteIsAClass) {
  TestResult other = passed_test("test_x");
  other.test.id = "fake.OtherTest.test_x";
  const Read read(with({passed_test("a"), other, passed_test("b")}));
  EXPECT_EQ(read.count("/testsuites/testsuite"), 2U);
  EXPECT_EQ(read.count("//testsuite[@name='gloo.CommTest']/testcase"), 2U);
  EXPECT_EQ(read.attribute("//testsuite[@name='gloo.CommTest']", "time"), "0.246");
  EXPECT_EQ(read.attribute("//testsuite[@name='fake.OtherTest']/testcase", "classname"),
            "fake.OtherTest");
}

TEST(JUnitXmlTest, APassedTestHasOnlyItsOutput) {
  TestResult result = passed_test("a");
  result.attempts[0].ranks[1].output = "x";
  const Read read(with({result}));
  EXPECT_EQ(read.one("//testcase/system-out").text().get(), std::string("[rank 1] x\n"));
  EXPECT_EQ(read.count("//testcase/*"), 2U) << "with its properties";
}

TEST(JUnitXmlTest, RepetitionsHaveTheirOwnNames) {
  TestResult second = passed_test("a");
  second.repetition = 1;
  TestsBegun run = a_run();
  run.repetitions = 2;
  const Read read(with({passed_test("a"), second}), run);
  EXPECT_EQ(read.count("//testcase[@name='a #1']"), 1U);
  EXPECT_EQ(read.count("//testcase[@name='a #2']"), 1U);
}

TEST(JUnitXmlTest, AFlakyTestPassesAndKeepsItsFailedAttempt) {
  const Read read(with({flaky_test("a")}));
  EXPECT_EQ(read.attribute("//testsuite", "failures"), "0");
  EXPECT_EQ(read.count("//failure") + read.count("//error"), 0U);
  EXPECT_EQ(read.attribute("//testcase/flakyFailure", "message"), "rank 1 failed: comm.cc:14");
  EXPECT_EQ(read.attribute("//testcase/flakyFailure", "type"), "failed");
  const std::string stack = read.one("//flakyFailure/stackTrace").text().get();
  EXPECT_NE(stack.find("suites/comm.cc:14"), std::string::npos) << stack;
  EXPECT_EQ(read.one("//flakyFailure/system-out").text().get(),
            std::string("[rank 0] hello\n[rank 1] hello\n[rank 1] world\n"));
  EXPECT_EQ(read.count("//testcase/system-out"), 0U) << "the attempt that passed wrote nothing";
}

TEST(JUnitXmlTest, TheFirstAttemptIsTheFailureAndTheRestAreReruns) {
  TestResult result = failed_test("a");
  result.attempts.push_back(failed_attempt(2));
  result.attempts.push_back(failed_attempt(3));
  result.attempts[1].reason = "second";
  result.attempts[2].ranks[1].status = RankStatus::kCrashed;
  result.attempts[2].ranks[0].output = "third";
  const Read read(with({result}));
  EXPECT_EQ(read.attribute("//testcase/failure", "message"), "rank 1 failed: comm.cc:14");
  EXPECT_EQ(read.count("//testcase/rerunFailure"), 1U);
  EXPECT_EQ(read.attribute("//testcase/rerunFailure", "message"), "second");
  EXPECT_EQ(read.attribute("//testcase/rerunError", "type"), "crashed");
  EXPECT_EQ(read.one("//testcase/rerunError/system-out").text().get(),
            std::string("[rank 0] third\n[rank 1] hello\n[rank 1] world\n"));
  EXPECT_EQ(read.one("//testcase/system-out").text().get(),
            std::string("[rank 0] hello\n[rank 1] hello\n[rank 1] world\n"));
}

TEST(JUnitXmlTest, TheEndOfTheCulpritDecidesBetweenFailureAndError) {
  const auto outcome = [](RankStatus status) {
    TestResult result = failed_test("a");
    result.attempts[0].ranks[1].status = status;
    const Read read(with({result}));
    const pugi::xml_node node = read.one("//testcase/*[@type]");
    EXPECT_EQ(read.attribute("//testsuite", "failures"),
              node.name() == std::string("failure") ? "1" : "0");
    EXPECT_EQ(read.attribute("//testsuite", "errors"),
              node.name() == std::string("error") ? "1" : "0");
    return std::string(node.name()) + " " + node.attribute("type").value();
  };
  EXPECT_EQ(outcome(RankStatus::kFailed), "failure failed");
  EXPECT_EQ(outcome(RankStatus::kCrashed), "error crashed");
  EXPECT_EQ(outcome(RankStatus::kTimedOut), "error timed_out");
  EXPECT_EQ(outcome(RankStatus::kExited), "error exited");
  EXPECT_EQ(outcome(RankStatus::kSkipped), "failure diverged");
  EXPECT_EQ(outcome(RankStatus::kPassed), "failure failed");
}

TEST(JUnitXmlTest, TestNotStartedBeforeAnInterruptIsSkipped) {
  TestResult not_run = skipped_test("a", "the run was ended");
  not_run.status = TestStatus::kInterrupted;
  const Read read(with({not_run}));
  EXPECT_EQ(read.attribute("//testsuite", "errors"), "0");
  EXPECT_EQ(read.attribute("//testsuite", "failures"), "0");
  EXPECT_EQ(read.attribute("//testsuite", "skipped"), "1");
  EXPECT_EQ(read.attribute("//testcase[@name='a']/skipped", "message"), "the run was ended");
}

TEST(JUnitXmlTest, AnInterruptedOrUnstartableTestIsAnError) {
  TestResult interrupted = failed_test("a");
  interrupted.status = interrupted.attempts[0].status = TestStatus::kInterrupted;
  interrupted.attempts[0].reason = "the run was ended";
  TestResult not_started = skipped_test("b", "fork: no room");
  not_started.status = TestStatus::kFailed;
  const Read read(with({interrupted, not_started}));
  EXPECT_EQ(read.attribute("//testsuite", "errors"), "2");
  EXPECT_EQ(read.attribute("//testcase[@name='a']/error", "type"), "interrupted");
  EXPECT_EQ(read.attribute("//testcase[@name='a']/error", "message"), "the run was ended");
  EXPECT_EQ(read.attribute("//testcase[@name='b']/error", "message"), "fork: no room");
}

TEST(JUnitXmlTest, IsValidXmlForAnyBytes) {
  TestResult result = failed_test("a");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  result.attempts[0].ranks[0].output = all + "]]></system-out>&amp;";
  result.attempts[0].ranks[1].failures[0].message = all + "<b>";
  result.attempts[0].reason = all + "\"'";
  const Read read(with({result}));
  ASSERT_TRUE(read.is_xml());
  const std::string output = read.one("//testcase/system-out").text().get();
  EXPECT_NE(output.find("]]></system-out>&amp;"), std::string::npos);
  EXPECT_NE(output.find("~\\x7f\uFFFD"), std::string::npos);
  const std::string reason = read.attribute("//failure", "message");
  EXPECT_EQ(reason.substr(0, 9), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(reason.substr(reason.size() - 2), "\"'");
  EXPECT_EQ(junit_xml(a_run(), with({result})).find('\x01'), std::string::npos);
}

}  // namespace
}  // namespace distrun
