// Describes the exception being handled, for a report.
//
//     catch (...) { const Thrown thrown = what_was_thrown(); … }
//     thrown.message          // "std::runtime_error: no such file"
//
// Works in a std::terminate handler, too. May throw std::bad_alloc.
#pragma once

#include <string>

namespace distrun {

struct Thrown {
  std::string message;    // Type and text. Without an exception: "std::terminate: …".
  std::string callstack;  // c10::Error's line "Exception raised from …", or empty.
};

Thrown what_was_thrown();

}  // namespace distrun
