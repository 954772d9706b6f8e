// PythonHarness runs tests as PyTorch does: pytest, and its MultiProcessTestCase in it.
//
//     PythonHarness python("/usr/bin/python3", ".deps/pytest");
//     const auto ids = python.ids("…/test_c10d_gloo.py", "gloo");  // "gloo.CommTest.test_sum", …
//     const auto times = python.run("…/test_c10d_gloo.py", "gloo", ids);
//
// An id is what `distrun test` calls a test: the suite's name, the class, the test.
// Throws std::runtime_error where pytest cannot be run.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace distrun::bench {

class PythonHarness {
 public:
  // `packages` is a folder of packages that the interpreter lacks: pytest and what the tests take.
  PythonHarness(std::string python, std::filesystem::path packages);

  // Of all tests in a file.
  std::set<std::string> ids(const std::filesystem::path& file, const std::string& suite) const;

  // Runs those tests of the file; seconds by id, of those that passed.  Start and end of pytest
  // are left out.
  std::map<std::string, double> run(const std::filesystem::path& file, const std::string& suite,
                                    const std::set<std::string>& ids) const;

 private:
  using Words = std::vector<std::string>;
  void pytest(const Words& arguments, const std::filesystem::path& output,
              std::chrono::seconds max) const;

  std::string python_;
  std::filesystem::path packages_;
};

}  // namespace distrun::bench
