// Which tests of a list are meant.
//
//     TestSelection selection{.names = {"gloo.CommTest"}, .expression = "not cuda",
//                             .shard = parse_shard("1/3").value()};
//     auto selected = select_tests(std::move(all), selection);
//     if (!selected) return selected.error();   // "no test is called 'gloo.Com': did you mean …?"
//     if (selected->tests.empty()) …            // selected->why_none: "-k zzz means none of 12
//     tests"
//
// A test runs where all that is given means it: one of the names, the expression, the ids that
// failed, the shard; looked at in this order.  They stay in the order of the list.  That none is
// left is no error here.
//
// Shards are stable: a test that is added or removed moves no other.  A test belongs to shard
// h % n + 1, where h is the 64-bit FNV-1a hash of the bytes of its id, mixed by the last step of
// MurmurHash3 (fmix64), which makes its low bits depend on all others:
//
//     h = 0xcbf29ce484222325; for each byte: h = (h xor byte) * 0x100000001b3
//     h = (h xor h >> 33) * 0xff51afd7ed558ccd
//     h = (h xor h >> 33) * 0xc4ceb9fe1a85ec53
//     h =  h xor h >> 33
//
// Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "distrun/test_info.h"

namespace distrun {

struct TestShard {
  int index = 1;  // From 1 to count.
  int count = 1;
};

struct TestSelection {
  // Ids, or what they begin with up to the end of a part: "gloo", "gloo.CommTest",
  // "gloo.CommTest.test_x"; a dot at the end changes nothing.  None: all tests.
  std::vector<std::string> names;
  std::string expression;                    // name_expression.h; empty: all tests.
  std::optional<std::set<std::string>> ids;  // --failed: only these.
  TestShard shard;
};

struct SelectedTests {
  std::vector<TestInfo> tests;
  std::string why_none;  // What has left nothing of them; empty where there are tests.
};

// "2/3".  Fails with kInvalidArgument.
Result<TestShard> parse_shard(std::string_view text);

// In [1, count].
int shard_of(std::string_view id, int count);

// Fails with kInvalidArgument where a name means no test of the list, or the expression is wrong.
Result<SelectedTests> select_tests(std::vector<TestInfo> tests, const TestSelection& selection);

}  // namespace distrun
