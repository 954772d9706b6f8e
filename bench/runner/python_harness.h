// PythonHarness runs tests as PyTorch does: with pytest and MultiProcessTestCase.
//
//     PythonHarness python("/usr/bin/python3", ".deps/pytest");
//     const auto ids = python.ids("…/test_c10d_gloo.py", "gloo");  // "gloo.CommTest.test_sum", …
//     const auto times = python.run("…/test_c10d_gloo.py", "gloo", ids);
//
// Ids are those of `distrun test`: SUITE.CLASS.TEST.  Throws std::runtime_error if pytest cannot be
// run.
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
  // The folder `packages` has packages that the interpreter lacks: pytest and the tests' imports.
  PythonHarness(std::string python, std::filesystem::path packages);

  // The ids of all tests in a file.
  std::set<std::string> ids(const std::filesystem::path& file, const std::string& suite) const;

  // Runs the tests `ids` of a file. Returns the seconds of those that passed, without pytest's
  // start and exit.
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
