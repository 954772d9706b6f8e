// A program's tests as JSON: sent by a test host, and printed by `--list --json`.
//
//     {"tests": [{"id": "gloo.CommTest.test_sum", "ranks": 4, "ranks_max": 0, "min_gpus": 0,
//                 "backends": ["gloo"], "timeout_ms": null, "exclusive": false,
//                 "collectives_may_differ": false,
//                 "expected_ends": {"1": {"signal": 9}, "2": {"exit_code": 3}},
//                 "file": "testsuites/gloo/comm.cc", "line": 12}]}
//
// test_info.h defines the fields. All are written. When read, only the id is required, and unknown
// fields are ignored. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "distrun/test_info.h"

namespace distrun {

// Invalid UTF-8 becomes U+FFFD.
std::string test_list_json(const std::vector<TestInfo>& tests);

// Fails with kProtocol, naming test and field: "test gloo.CommTest.test_sum: \"ranks\": 0 is less
// than 1". An id has three parts and is unique.
Result<std::vector<TestInfo>> parse_test_list(std::string_view json);

}  // namespace distrun
