// C++ names as the linker has them become those of the source.
//
//     demangled("#0 _Z5trainPKc+0x1c (worker+0x12ab)")   // "#0 train(char const*)+0x1c
//     (worker+0x12ab)"
//
// Every word of the text that is such a name is replaced; all else stays.  Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string demangled(std::string_view text);

// The name of a type: what std::type_info::name() gives, as the source has it.
std::string demangled_type(const char* name);

}  // namespace distrun
