// The tests of a binary as JSON: what a test host says of itself, and what `--list --json` prints.
//
//     {"tests": [{"id": "gloo.CommTest.test_sum", "ranks": 4, "ranks_max": 0, "min_gpus": 0,
//                 "backends": ["gloo"], "timeout_ms": null, "exclusive": false,
//                 "expected_ends": {"1": {"signal": 9}, "2": {"exit_code": 3}},
//                 "file": "testsuites/gloo/comm.cc", "line": 12}]}
//
// The meaning of the fields is that of test_info.h.  All of them are written; read, a test needs no
// more than its id, and has test_info.h's defaults otherwise.  What is not known is passed over.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "distrun/test_info.h"

namespace distrun {

// Bytes that are no UTF-8 become U+FFFD.
std::string test_list_json(const std::vector<TestInfo>& tests);

// Fails with kProtocol, and names the test and the field: "test gloo.CommTest.test_sum: \"ranks\":
// 0 is less than 1".  An id has three parts and occurs once.
Result<std::vector<TestInfo>> parse_test_list(std::string_view json);

}  // namespace distrun
