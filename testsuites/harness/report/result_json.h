// The results of a run as JSON (--json FILE).
//
//     {"summary": {"passed": 1, "failed": 1, "skipped": 0, "flaky": 0, "not_run": 0,
//                  "seconds": 1.2},
//      "began": "2026-03-01T12:00:00.000Z", "host": "node7", "nodes": 1, "seed": 7,
//      "jobs": 4, "binaries": ["build/distrun-suites"],
//      "tests": [{"id": "gloo.CommTest.test_sum", "status": "failed", "seconds": 0.123,
//                 "reason": "rank 1 failed: …", "file": "comm.cc", "line": 12, "repetition": 0,
//                 "backend": "gloo", "repeat_command": "distrun test gloo.CommTest.test_sum",
//                 "attempt": 2, "began_s": 0.35, "culprits": [1],
//                 "where": "", "stacks": "",
//                 "ranks": [{"rank": 0, "status": "passed", "assertions": 12,
//                            "failures": [{"file": "comm.cc", "line": 14, "message": "…",
//                                          "at_s": 0.02}],
//                            "skip_reason": "", "end": "", "stands_at": "", "output": "",
//                            "began_s": 0.001, "ended_s": 0.122,
//                            "operations": [["allreduce", "Float [4]", 0.012, 0.019, true]],
//                            "operations_left_out": 0,
//                            "leaked_processes": ["77 (sleep)"],
//                            "collectives": [{"op": "allreduce", "sizes": [[4]],
//                                             "dtype": "Float", "count": 3}]}],
//                 "earlier_attempts": [{"attempt": 1, "status": "failed", "began_s": 0.2,
//                                       "seconds": 0.1, "reason": "timed out: ranks 0-1 hung in …",
//                                       "culprits": [0, 1], "where": "ranks 0-1 in …",
//                                       "stacks": "  ranks 0-1\n    …", "ranks": []}]}]}
//
// Each test is one line. test_events.h defines the fields, and its text_of() the words for a
// status. "attempt", "culprits", "where", "stacks" and "ranks" describe the last attempt; if
// nothing was started, "attempt" is 0 and "ranks" is empty. "where" and "stacks" are empty unless
// ranks hung: the place of each rank in one line, and the stacks of all ranks in one tree. A rank
// has "node" and "host" if its attempt runs on several nodes. Invalid UTF-8 becomes U+FFFD.
//
// Times: an attempt's "began_s" is in seconds since the run began; those of its ranks are in
// seconds since the attempt began.  An operation is a collective, send or receive: its name,
// inputs, start and end, and whether it completed. Unknown times are null, as is the end of an
// operation that did not complete. Pure.
#pragma once

#include <string>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

std::string result_json(const TestsBegun& begun, const TestsEnded& ended);

}  // namespace distrun
