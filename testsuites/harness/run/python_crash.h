// What Python prints when a signal kills it: the stacks of all threads in C++, by LibTorch, then
// faulthandler's stacks in Python, with the frames of the test host, and a long list of modules.
//
//     place_of_python_crash(output)       // "string_at, called by test_reads (my_test.py:12)"
//     with_short_python_crashes(output)
//     // Fatal Python error: Segmentation fault
//     //   test_reads (my_test.py:12)
//     //   string_at (ctypes/__init__.py:519)
//     // … 31 lines left out; --json FILE writes them
//
// The short form has the thread that crashed, outermost call first, from the test on: calls in
// Python, then calls of libraries. Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

// Of the last crash; empty if there is none, or no Python function was running.
std::string place_of_python_crash(std::string_view output);

std::string with_short_python_crashes(std::string_view output);

}  // namespace distrun
