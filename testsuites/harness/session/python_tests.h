// Tests of Python: PyTorch's MultiProcessTestCase and other classes of unittest, in a file.
//
//     auto tests = python_tests({"python3", "-X", "dev", "test_mine.py"});
//     if (!tests) return tests.error();
//     auto host = write_python_host(*tests, "/tmp/distrun-abc");
//     // {"python3", "-X", "dev", "/tmp/distrun-abc/python", "test_mine.py"}
//
// The host is a program in Python, which distrun contains (harness/python/).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "distrun/result.h"

namespace distrun {

struct PythonTests {
  std::vector<std::string> command;
  std::size_t file = 0;  // Its index in `command`.
};

// Whether `command` begins with Python or with a file whose name ends with .py. Pure.
bool is_python(const std::vector<std::string>& command);

// `command` is Python with its flags, a file and the file's arguments, or begins with the file.
// For a file without tests: "check.py contains no unittest classes; to run it as one test: …".
// Pure.
std::string why_no_python_tests(const std::vector<std::string>& command);

// Fails with kInvalidArgument if it has no file. REQUIRES: is_python(command). Pure.
Result<PythonTests> python_tests(std::vector<std::string> command);

// Writes the host into `folder`, and returns the command that starts it.
Result<std::vector<std::string>> write_python_host(const PythonTests& tests,
                                                   const std::string& folder);

}  // namespace distrun
