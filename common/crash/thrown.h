// What the exception that is being handled says, for a report.
//
//     catch (...) { const Thrown thrown = what_was_thrown(); … }
//     thrown.message          // "std::runtime_error: no such file"
//
// In a std::terminate handler, too. May throw std::bad_alloc.
#pragma once

#include <string>

namespace distrun {

struct Thrown {
  std::string message;    // The type and the text. Without an exception: "std::terminate: …".
  std::string callstack;  // Of c10::Error, the line "Exception raised from …"; otherwise empty.
};

Thrown what_was_thrown();

}  // namespace distrun
