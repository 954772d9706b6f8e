#include "testsuites/harness/run/node_tests.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

using Test = std::pair<std::size_t, std::string>;  // Its program and id.

std::map<Test, const TestNeeds*> needs_of(const std::vector<LoadedTest>& tests) {
  std::map<Test, const TestNeeds*> needs;
  for (const LoadedTest& one : tests) needs[{one.program, one.test.id}] = &one.test.needs;
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
    if (*other.mapped() != *needs) {
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
