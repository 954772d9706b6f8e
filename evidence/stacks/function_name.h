// Shortens function names: omits parameters, template arguments, return types and unnamed
// namespaces.
//
//     short_function_name("std::vector<int> gloo::Pair<1>::read(char const*, unsigned long)")
//     // "gloo::Pair::read"
//
// A function of std::thread gets the name of the lambda that it runs.
//
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace distrun {

std::string short_function_name(std::string_view name);

}  // namespace distrun
