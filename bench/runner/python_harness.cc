#include "bench/runner/python_harness.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <pugixml.hpp>
#include <unistd.h>

#include "bench/launch/launcher_process.h"
#include "common/os/temporary_folder.h"

namespace distrun::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kCollectMax{120}, kTestMax{300};
constexpr int kSomeFailed = 1;  // An exit status of pytest.

// pytest's name of a test is "FILE::CLASS::TEST"; empty for other lines.
std::string id_of(const std::string& line, const std::string& suite) {
  const auto first = line.find("::"), second = line.find("::", first + 2);
  if (first == std::string::npos || second == std::string::npos) return "";
  return fmt::format("{}.{}.{}", suite, line.substr(first + 2, second - first - 2),
                     line.substr(second + 2));
}

// The inverse of id_of().
std::string node_of(const std::string& id, const fs::path& file) {
  const auto first = id.find('.'), second = id.find('.', first + 1);
  return fmt::format("{}::{}::{}", file.string(), id.substr(first + 1, second - first - 1),
                     id.substr(second + 1));
}

}  // namespace

PythonHarness::PythonHarness(std::string python, fs::path packages)
    : python_(std::move(python)), packages_(std::move(packages)) {}

// pytest's output goes to `output`.
void PythonHarness::pytest(const Words& arguments, const fs::path& output,
                           std::chrono::seconds max) const {
  Words words = {"/bin/sh",
                 "-c",
                 "exec \"$@\" >\"$0\" 2>&1",
                 output.string(),
                 "/usr/bin/env",
                 "OMP_NUM_THREADS=1",
                 "PYTHONPATH=" + packages_.string(),
                 "PYTHONDONTWRITEBYTECODE=1",
                 python_,
                 "-m",
                 "pytest",
                 "-p",
                 "no:cacheprovider",
                 "-q"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const int status = LauncherProcess(words).wait(max);
  if (status == 0 || status == kSomeFailed) return;
  std::string last;
  std::ifstream text(output);
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) last = line;
  }
  throw std::runtime_error(fmt::format("pytest exited with status {}: {}", status, last));
}

std::set<std::string> PythonHarness::ids(const fs::path& file, const std::string& suite) const {
  const TemporaryFolder folder = TemporaryFolder::make(Environment::from(environ)).value();
  const fs::path list = fs::path(folder.path()) / "list";
  pytest({"--collect-only", file.string()}, list, kCollectMax);
  std::set<std::string> ids;
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    if (const auto id = id_of(line, suite); !id.empty()) ids.insert(id);
  }
  return ids;
}

std::map<std::string, double> PythonHarness::run(const fs::path& file, const std::string& suite,
                                                 const std::set<std::string>& ids) const {
  const TemporaryFolder folder = TemporaryFolder::make(Environment::from(environ)).value();
  const fs::path results = fs::path(folder.path()) / "results.xml";
  Words arguments = {"--timeout=" + std::to_string(kTestMax.count()),
                     "--junitxml=" + results.string()};
  for (const std::string& id : ids) arguments.push_back(node_of(id, file));
  pytest(arguments, fs::path(folder.path()) / "output",
         kTestMax * static_cast<int>(ids.size() + 1));
  pugi::xml_document document;
  if (!document.load_file(results.c_str())) throw std::runtime_error("pytest wrote no results");
  std::map<std::string, double> seconds;
  for (const auto& found : document.select_nodes("//testcase[not(*)]")) {  // Passed.
    const std::string class_name = found.node().attribute("classname").value();
    seconds[fmt::format("{}.{}.{}", suite, class_name.substr(class_name.rfind('.') + 1),
                        found.node().attribute("name").value())] =
        found.node().attribute("time").as_double();
  }
  return seconds;
}

}  // namespace distrun::bench
