// Times and failures of tests in earlier runs: they determine the order of tests, the estimated
// time left, and --failed.
//
//     auto [history, notice] = read_history(path);
//     history.time_of("gloo.CommTest.test_sum")   // 35 ms, or nullopt
//     history.failed()                            // ids
//     …
//     auto added = add_to_history(path, ended);   // at the end of a run
//
// The file:
//
//     {"runs": 12,
//      "tests": {"gloo.CommTest.test_sum": {"time_us": 35000, "run": 12, "failed": true}}}
//
// The file may be removed at any time; an unreadable file counts as missing. Beyond kTestsMax,
// tests that have not run for longest are dropped.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "distrun/result.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

struct PastTest {
  // A moving average over passed attempts: the latest counts three tenths.
  std::optional<std::chrono::microseconds> time;
  std::int64_t run = 0;  // Its last run, from 1.
  bool failed = false;   // It failed and has not passed since.
  friend bool operator==(const PastTest&, const PastTest&) = default;
};

struct History {
  static constexpr std::size_t kTestsMax = 10'000;

  std::int64_t runs = 0;
  std::map<std::string, PastTest, std::less<>> tests;  // By id.

  std::optional<std::chrono::microseconds> time_of(std::string_view id) const;
  std::set<std::string> failed() const;
};

// Adds a run; one without tests changes nothing. A failed test stays failed until it passes or
// skips itself, not if it is deselected or skipped before its start. A test that an interrupt
// prevented or ended has failed.
History updated(History history, const TestsEnded& ended);

// Pure, like updated(). Fails with kInvalidArgument if `json` is not a history; ignores invalid
// entries.
std::string to_json(const History& history);
Result<History> parse_history(std::string_view json);

struct HistoryFile {
  History history;
  std::string notice;  // One line if the file could not be used, else empty.
};
HistoryFile read_history(const std::string& path);

// Reads the file again, to keep what other runs have written meanwhile, then replaces it. REQUIRES:
// its folder exists.
Result<void> add_to_history(const std::string& path, const TestsEnded& ended);

}  // namespace distrun
