#include "testsuites/testing/registry.h"

#include <deque>
#include <set>

#include "distrun/testing.h"

namespace distrun {

namespace {

// Created at first use: tests register before main().
std::vector<TestInfo>& tests() {
  static std::vector<TestInfo> all;
  return all;
}

}  // namespace

const std::vector<TestInfo>& registered_tests() { return tests(); }

std::vector<std::string> other_tests() {
  std::set<std::string> ours;
  for (const TestInfo& test : registered_tests()) ours.insert(test.id);
  std::vector<std::string> others;
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string id = std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();
      if (!ours.contains(id)) others.push_back(id);
    }
  }
  return others;
}

const char* internal::note_test(const char* suite, const char* test_class, const char* name,
                                const TestNeeds& needs, const char* file, int line) {
  static std::deque<std::string> class_names;  // GoogleTest keeps the pointers.
  class_names.push_back(std::string(suite) + "." + test_class);
  tests().push_back(
      {.id = class_names.back() + "." + name, .needs = needs, .file = file, .line = line});
  return class_names.back().c_str();
}

}  // namespace distrun
