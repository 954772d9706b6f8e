#include "testsuites/harness/run/node_tests.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "testsuites/harness/protocol/test_list_json.h"

namespace distrun {

namespace {

using Test = std::pair<std::size_t, std::string>;  // Its program and id.

std::map<Test, std::string> needs_of(const std::vector<LoadedTest>& tests) {
  std::map<Test, std::string> needs;
  for (const LoadedTest& loaded : tests) {
    TestInfo test = loaded.test;
    test.file.clear();
    test.line = 0;
    needs[{loaded.program, test.id}] = test_list_json({test});
  }
  return needs;
}

constexpr const char* kRemedy = "use the same build of the tests on all nodes";

}  // namespace

Result<void> check_same_tests(const std::vector<LoadedTest>& here,
                              const std::vector<LoadedTest>& there, int node) {
  auto others = needs_of(there);
  for (const auto& [test, needs] : needs_of(here)) {
    const auto other = others.extract(test);
    if (other.empty()) {
      return Error{ErrorKind::kInvalidArgument, fmt::format("node {} does not have the test {}; {}",
                                                            node, test.second, kRemedy)};
    }
    if (other.mapped() != needs) {
      return Error{
          ErrorKind::kInvalidArgument,
          fmt::format(
              "on node {}, the test {} has other needs, such as another number of ranks; {}", node,
              test.second, kRemedy)};
    }
  }
  if (others.empty()) return {};
  return Error{ErrorKind::kInvalidArgument, fmt::format("only node {} has the test {}; {}", node,
                                                        others.begin()->first.second, kRemedy)};
}

}  // namespace distrun
