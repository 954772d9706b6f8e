#include "testsuites/testing/registry.h"

#include <deque>

#include "testsuites/testing/distributed_test.h"

namespace distrun {

namespace {

// Made at the first use: tests are made known before main().
std::vector<TestInfo>& tests() {
  static std::vector<TestInfo> all;
  return all;
}

}  // namespace

const std::vector<TestInfo>& registered_tests() { return tests(); }

const char* internal::note_test(const char* suite, const char* test_class, const char* name,
                                const TestNeeds& needs, const char* file, int line) {
  static std::deque<std::string> class_names;  // GoogleTest keeps the pointers.
  class_names.push_back(std::string(suite) + "." + test_class);
  tests().push_back(
      {.id = class_names.back() + "." + name, .needs = needs, .file = file, .line = line});
  return class_names.back().c_str();
}

}  // namespace distrun
