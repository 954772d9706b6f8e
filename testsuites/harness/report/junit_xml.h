// What became of a run's tests, as JUnit's XML (--junit FILE), which CI systems read.
//
//     <testsuites name="distrun" tests="2" failures="1" errors="0" time="1.250">
//       <testsuite name="gloo.CommTest" tests="2" failures="1" errors="0" skipped="0" …>
//         <properties>…seed, jobs…</properties>
//         <testcase classname="gloo.CommTest" name="test_sum" time="1.204" …>
//           <properties><property name="ranks" value="4"/>…backend, seed…</properties>
//           <failure message="rank 1 failed: …" type="failed">…rank by rank…</failure>
//           <system-out>[rank 0] hello
//     …
//
// A test suite is a class, "suite.Class".  What a test checked and found wrong is a <failure>; a
// crash, a time-out, an end of a rank before its test's, or an interrupt is an <error>.  One that
// was not started because the run was ended is <skipped>, though it counts as failed elsewhere.
//
// Attempts are told as Maven's surefire does: of a flaky test those that failed are <flakyFailure>
// and <flakyError>; of a failed one the first is the <failure>, and later ones are <rerunFailure>
// and <rerunError>.  Each has its own output; a test's <system-out> is that of the attempt that it
// is judged by.  Text that XML cannot hold is replaced (xml_text.h).  Pure.
#pragma once

#include <chrono>
#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

struct JUnitRun {
  TestsBegun begun;
  std::chrono::system_clock::time_point began_at;
  std::string host;
};

std::string junit_xml(const JUnitRun& run, const TestsEnded& ended);

}  // namespace distrun
