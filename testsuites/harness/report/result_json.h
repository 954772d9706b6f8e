// The results of a run as JSON (--json FILE).
//
//     {"summary": {"passed": 1, "failed": 1, "skipped": 0, "flaky": 0, "not_run": 0,
//                  "seconds": 1.2},
//      "seed": 7, "jobs": 4, "binaries": ["build/distrun-suites"],
//      "tests": [{"id": "gloo.CommTest.test_sum", "status": "failed", "seconds": 0.123,
//                 "reason": "rank 1 failed: …", "file": "comm.cc", "line": 12, "repetition": 0,
//                 "backend": "gloo", "repeat_command": "distrun test gloo.CommTest.test_sum",
//                 "attempt": 2, "culprits": [1],
//                 "ranks": [{"rank": 0, "status": "passed", "assertions": 12,
//                            "failures": [{"file": "comm.cc", "line": 14, "message": "…"}],
//                            "skip_reason": "", "end": "", "stands_at": "", "output": "",
//                            "leaked_processes": ["77 (sleep)"],
//                            "collectives": [{"op": "allreduce", "sizes": [[4]],
//                                             "dtype": "Float", "count": 3}]}],
//                 "earlier_attempts": [{"attempt": 1, "status": "failed", "seconds": 0.1,
//                                       "reason": "…", "culprits": [], "ranks": []}]}]}
//
// Each test is one line.  test_events.h defines the fields; its text_of() gives the words for a
// status.  "attempt", "culprits" and "ranks" describe the last attempt; if nothing was started,
// "attempt" is 0 and there are no ranks.  Invalid UTF-8 becomes U+FFFD.  Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

std::string result_json(const TestsBegun& begun, const TestsEnded& ended);

}  // namespace distrun
