// Demangles C++ names.
//
//     demangled_backtrace("#0 _Z5trainPKc+0x1c (worker+0x12ab)\n")
//     // "#0 train(char const*)+0x1c (worker+0x12ab)\n"
//
// Very long names, and names that refer to their own parts many times, stay mangled: the text may
// come from anywhere, and time and memory are bounded.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

// Demangles names in lines that have Backtrace's form (backtrace.h); other lines stay.
std::string demangled_backtrace(std::string_view text);

// Demangles the result of std::type_info::name().
std::string demangled_type(const char* name);

// Demangles the name of a function in a symbol table.  Names of C stay as they are.
std::string demangled_symbol(const char* name);

}  // namespace distrun
