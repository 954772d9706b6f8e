// The results of a run as JUnit XML (--junit FILE), which CI systems read.
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
// A <testsuite> is a class, "suite.Class". A failed check is a <failure>; a crash, timeout, early
// exit of a rank or interrupt is an <error>. Tests that an interrupt kept from starting are
// <skipped>.
//
// Attempts follow Maven Surefire: a flaky test has <flakyFailure> and <flakyError> elements; a
// failed one has its first attempt as <failure> and later ones as <rerunFailure> and <rerunError>.
// Each has its own output; <system-out> is the decisive attempt's. Text that XML cannot represent
// is replaced (xml_text.h).  Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

std::string junit_xml(const TestsBegun& begun, const TestsEnded& ended);

}  // namespace distrun
