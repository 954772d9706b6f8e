#include "testsuites/harness/session/python_tests.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "common/text/shell_quote.h"
#include "testsuites/harness/session/python_host_files.h"

namespace distrun {

namespace {

Error refused(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool takes_value(const std::string& flag) {
  return flag == "-W" || flag == "-X" || flag == "--check-hash-based-pycs";
}

}  // namespace

// "python3.11", but not "python_ring".
bool is_python(const std::vector<std::string>& command) {
  const std::string name = base_name(command.front());
  return name.ends_with(".py") ||
         (name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos);
}

Result<PythonTests> python_tests(std::vector<std::string> command) {
  if (command.front().ends_with(".py")) command.insert(command.begin(), "python3");
  const std::string program = command.front();
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word.starts_with("-m") || word.starts_with("-c") || word == "-") {
      return refused(fmt::format("{} {}: give a file, such as test_mine.py", program, word));
    }
    if (!word.starts_with('-')) return PythonTests{std::move(command), i};
    if (takes_value(word)) ++i;
  }
  return refused(program + ": give a file, such as test_mine.py");
}

std::string why_no_python_tests(const std::vector<std::string>& command) {
  const bool is_file = command.front().ends_with(".py");
  std::string words;
  for (const std::string& word : command) words += ' ' + shell_quoted(word);
  const auto file = std::find_if(command.begin(), command.end(),
                                 [](const std::string& word) { return word.ends_with(".py"); });
  return fmt::format(
      "{} contains no unittest classes; to run it as one test: distrun test -- env{}{}",
      file == command.end() ? "the file" : *file, is_file ? " python3" : "", words);
}

Result<std::vector<std::string>> write_python_host(const PythonTests& tests,
                                                   const std::string& folder) {
  const std::string path = folder + "/python";
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (error) return Error::from_errno("make the folder " + path, error.value());
  for (const PythonHostFile& file : python_host_files()) {
    std::ofstream out(path + "/" + file.name, std::ios::binary);
    if (!(out << file.text << std::flush)) return Error::from_errno("write " + path);
  }
  std::vector<std::string> command = tests.command;
  command.insert(command.begin() + static_cast<std::ptrdiff_t>(tests.file), path);
  return command;
}

}  // namespace distrun
