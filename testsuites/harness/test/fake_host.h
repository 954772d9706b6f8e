// For tests: runs the ranks of fake_ranks.h with hosts of fake_test_host.cc.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/test/runner_fixture.h"

namespace distrun::testing {

inline std::string name_in(const std::string& id) { return id.substr(id.rfind('.') + 1); }

// "passes passed"; "fails failed 2" after two attempts.
inline std::vector<std::string> texts(const std::vector<TestResult>& results) {
  std::vector<std::string> all;
  for (const TestResult& result : results) {
    all.push_back(name_in(result.test.id) + " " + text_of(result.status));
    if (result.attempts.size() != 1) all.back() += fmt::format(" {}", result.attempts.size());
  }
  return all;
}

// A rank or a host blocks in wait_at(name) until the test releases it.
class WaitingPlace {
 public:
  WaitingPlace(const std::string& folder, const std::string& name) {
    const std::string path = folder + "/" + name + ".place";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    pipe_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  }

  // Releases the waiting process, or the next one.
  void let_one_go() const { EXPECT_EQ(::write(pipe_.get(), "!", 1), 1); }

 private:
  UniqueFd pipe_;
};

class FakeHostFixture : public RunnerFixture {
 protected:
  FakeHostFixture() : RunnerFixture(FAKE_TEST_HOST, "fake.Rank.") {
    ::setenv("FAKE_FOLDER", hosts_.path().c_str(), 1);
  }

  // The host, under a name that makes it misbehave.
  std::string host(const std::string& name) const {
    const std::string path = hosts_.path() + "/" + name;
    std::filesystem::create_symlink(FAKE_TEST_HOST, path);
    return path;
  }

  TestRunner::Options options_with(const std::string& host_name) const {
    TestRunner::Options its = options();
    its.programs = {host(host_name)};
    return its;
  }

  // The tests with these names, in that order; "passes@1" is the second program's.
  Choose the(const std::vector<std::string>& names) const {
    return [this, names](const std::vector<LoadedTest>& tests) {
      std::vector<PlannedTest> plan;
      for (const std::string& name : names) {
        const auto at = std::min(name.find('@'), name.size());
        for (const LoadedTest& one : tests) {
          const bool second = at < name.size();
          if (one.test.id != "fake.Rank." + name.substr(0, at) || (one.program == 1) != second) {
            continue;
          }
          plan.push_back({.test = one.test,
                          .program = one.program,
                          .ranks = one.test.needs.ranks,
                          .backend = "gloo",
                          .timeout = timeout_});
        }
      }
      EXPECT_EQ(plan.size(), names.size());
      return plan;
    };
  }

  Folder hosts_;
  const WaitingPlace another_{hosts_.path(), "another"};
  const WaitingPlace host_{hosts_.path(), "host"};
  const WaitingPlace passes_when_let_{hosts_.path(), "passes_when_let"};
  const WaitingPlace passes_at_last_{hosts_.path(), "passes_at_last"};
  const WaitingPlace fails_when_let_{hosts_.path(), "fails_when_let"};
  const WaitingPlace kills_its_host_when_let_{hosts_.path(), "kills_its_host_when_let"};
};

}  // namespace distrun::testing
