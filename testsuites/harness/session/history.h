// What earlier runs have taken, and which tests have failed and not passed since: for the order in
// which tests are started, for the estimate of what is left, and for --failed.
//
//     auto [history, notice] = read_history(path);
//     history.time_of("gloo.CommTest.test_sum")   // 35 ms, or nothing
//     history.failed()                            // ids
//     …
//     auto added = add_to_history(path, ended);   // at the end of a run
//
// The file:
//
//     {"runs": 12,
//      "tests": {"gloo.CommTest.test_sum": {"time_us": 35000, "run": 12, "failed": true}}}
//
// It is worth little and may be removed at any time: what cannot be read counts as not there.  It
// has a bound, too: tests that have not been run for the longest time are forgotten.
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
  // Of attempts that passed: a later one counts for three tenths, all before it for the rest.
  std::optional<std::chrono::microseconds> time;
  std::int64_t run = 0;  // The last one that it was part of, from 1.
  bool failed = false;   // And has not passed since.
  friend bool operator==(const PastTest&, const PastTest&) = default;
};

struct History {
  static constexpr std::size_t kTestsMax = 10'000;

  std::int64_t runs = 0;
  std::map<std::string, PastTest, std::less<>> tests;  // By id.

  std::optional<std::chrono::microseconds> time_of(std::string_view id) const;
  std::set<std::string> failed() const;
};

// With one run more.  A test that failed stays so until it passes, or skips itself; that it was not
// selected, or skipped before it was started, changes nothing.  One that the run was to run, and
// was ended before, has failed.  A run without tests is none.
History updated(History history, const TestsEnded& ended);

// Pure, as updated() is.  Fails with kInvalidArgument where `json` is no history; an entry that
// makes no sense is passed over.
std::string to_json(const History& history);
Result<History> parse_history(std::string_view json);

struct HistoryFile {
  History history;
  std::string notice;  // One line where there was a file that could not be used; else empty.
};
HistoryFile read_history(const std::string& path);

// Reads the file again, so that what another run has written meanwhile stays, updates and replaces
// it.  Its folder is there.
Result<void> add_to_history(const std::string& path, const TestsEnded& ended);

}  // namespace distrun
