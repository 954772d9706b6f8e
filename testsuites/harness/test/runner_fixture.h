// For tests of the runner: runs tests of real programs.
//
//     class MyTest : public testing::RunnerFixture {
//      protected:
//       MyTest() : RunnerFixture("build/tests/distrun_selftest", "selftest.") {}
//     };
//     TEST_F(MyTest, …) { EXPECT_EQ(run_one("Well.test_passes").status, TestStatus::kPassed); }
//
// Fails if the run leaks a process.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/test/folder.h"
#include "launcher/process/leaked_processes.h"
#include "testsuites/harness/run/test_runner.h"

namespace distrun::testing {

class RunnerFixture : public ::testing::Test {
 protected:
  RunnerFixture(std::string program, std::string prefix)
      : program_(std::move(program)), prefix_(std::move(prefix)) {}

  TestRunner::Options options() const {
    return {.programs = {program_},
            .environment = Environment::from(environ),
            .folder = folder_.path(),
            .jobs = 4};
  }

  // The tests whose ids start with the prefix and `which`.
  std::vector<PlannedTest> plan(const std::vector<LoadedTest>& tests, const std::string& which) {
    std::vector<PlannedTest> plan;
    for (const LoadedTest& loaded : tests) {
      const TestNeeds& needs = loaded.test.needs;
      if (!loaded.test.id.starts_with(prefix_ + which)) continue;
      plan.push_back({.test = loaded.test,
                      .program = loaded.program,
                      .ranks = needs.ranks,
                      .backend = needs.backends.front(),
                      .timeout = needs.timeout.value_or(timeout_)});
    }
    return plan;
  }

  std::vector<TestResult> run(const std::string& which, const TestRunner::Options& options) {
    return run([&](const auto& tests) { return plan(tests, which); }, options);
  }

  using Choose = std::function<std::vector<PlannedTest>(const std::vector<LoadedTest>& tests)>;
  std::vector<TestResult> run(const Choose& choose, const TestRunner::Options& options) {
    EXPECT_TRUE(become_subreaper());
    boost::asio::io_context io;
    std::vector<TestResult> results;
    TestRunner runner(io, options, [&](const TestEvent& event) {
      if (const auto* notice = std::get_if<TestsNoticed>(&event)) notices_.push_back(notice->text);
      if (const auto* all = std::get_if<TestsEnded>(&event)) {
        results = all->results;
        summary_ = all->summary;
      }
      if (on_event_) on_event_(runner, event);
    });
    runner.load([&](auto tests) {
      if (tests) {
        TestPlan plan{.tests = choose(*tests)};
        planned_ = plan.tests.size();
        return runner.run(std::move(plan), [&] { io.stop(); });
      }
      ADD_FAILURE() << tests.error().message;
      io.stop();
    });
    if (hosts_are_started_) hosts_are_started_();
    io.run_for(std::chrono::seconds(100));
    EXPECT_TRUE(io.stopped()) << "the run has not ended";
    const auto left = kill_leaked_processes(std::chrono::seconds(10));
    EXPECT_THAT(left.killed, ::testing::SizeIs(left_expected_)) << "processes that are left";
    return results;
  }

  TestResult run_one(const std::string& id) { return run_one(id, options()); }
  TestResult run_one(const std::string& id, const TestRunner::Options& options) {
    const auto results = run(id, options);
    EXPECT_EQ(results.size(), 1u) << id;
    return results.empty() ? TestResult{} : results[0];
  }

  // Why the tests could not be loaded.
  std::string problem_of(const TestRunner::Options& options) const {
    boost::asio::io_context io;
    TestRunner runner(io, options, [](const TestEvent&) {});
    std::string problem;
    runner.load([&](auto tests) {
      problem = tests ? "" : tests.error().message;
      io.stop();
    });
    io.run_for(std::chrono::seconds(100));
    EXPECT_TRUE(io.stopped()) << "nothing was said";
    return problem;
  }

  testing::Folder folder_;
  std::chrono::milliseconds timeout_ = std::chrono::seconds(60);
  std::size_t planned_ = 0, left_expected_ = 0;
  std::vector<std::string> notices_;
  TestsSummary summary_;
  std::function<void(TestRunner&, const TestEvent&)> on_event_;
  std::function<void()> hosts_are_started_;  // Before the loop runs.

 private:
  const std::string program_, prefix_;
};

}  // namespace distrun::testing
