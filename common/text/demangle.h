// Demangles C++ names.
//
//     demangled_backtrace("#0 _Z5trainPKc+0x1c (worker+0x12ab)\n")
//     // "#0 train(char const*)+0x1c (worker+0x12ab)\n"
//
// Very long names, and names with many references to their own parts, stay mangled: time and memory
// are bounded for any text. Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

// Demangles names in lines that have Backtrace's form (backtrace.h); keeps other lines.
std::string demangled_backtrace(std::string_view text);

// Demangles the result of std::type_info::name().
std::string demangled_type(const char* name);

// Demangles a function's name from a symbol table. Keeps names of C.
std::string demangled_symbol(const char* name);

}  // namespace distrun
