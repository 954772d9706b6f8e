// C++ names as the linker has them become those of the source.
//
//     demangled_backtrace("#0 _Z5trainPKc+0x1c (worker+0x12ab)\n")
//     // "#0 train(char const*)+0x1c (worker+0x12ab)\n"
//
// A name that is very long, or that refers to parts of itself again and again, stays as it is: the
// text may come from anywhere, and time and memory are bounded.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

// In lines that have the form of Backtrace's (backtrace.h); all others stay.
std::string demangled_backtrace(std::string_view text);

// The name of a type: what std::type_info::name() gives, as the source has it.
std::string demangled_type(const char* name);

}  // namespace distrun
