// Selects tests from a list.
//
//     TestSelection selection{.names = {"gloo.CommTest"}, .expression = "not cuda",
//                             .shard = parse_shard("1/3").value()};
//     auto selected = select_tests(std::move(all), selection);
//     if (!selected) return selected.error();   // "no test is called 'gloo.Com': did you mean …?"
//     if (selected->tests.empty()) …            // why_none: "-k zzz matches none of 12 tests"
//
// Filters apply in this order: names, expression, ids, shard; a test runs if all match. The order
// of the list is kept. Selecting no test is not an error here.
//
// Shards are stable: adding or removing a test moves no other.  A test is in shard h % n + 1, where
// h is the 64-bit FNV-1a hash of its id, mixed by MurmurHash3's last step (fmix64), which makes the
// low bits depend on all others:
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
  // Ids or leading parts of them: "gloo", "gloo.CommTest", "gloo.CommTest.test_x". A trailing dot
  // is ignored. Empty: all tests.
  std::vector<std::string> names;
  std::string expression;                    // See name_expression.h.  Empty: all tests.
  std::optional<std::set<std::string>> ids;  // --failed: only these.
  TestShard shard;
};

struct SelectedTests {
  std::vector<TestInfo> tests;
  std::string why_none;  // The filter that left no test; may be empty.
};

// "2/3".  Fails with kInvalidArgument.
Result<TestShard> parse_shard(std::string_view text);

// In [1, count].
int shard_of(std::string_view id, int count);

// Fails with kInvalidArgument if a name matches no test or the expression is malformed.
Result<SelectedTests> select_tests(std::vector<TestInfo> tests, const TestSelection& selection);

}  // namespace distrun
