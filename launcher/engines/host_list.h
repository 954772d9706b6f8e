// Slurm's short form of a list of hosts, and of the number of tasks on each.
//
//     auto hosts = expand_host_list("gpu[08-10,12],login");   // gpu08 gpu09 gpu10 gpu12 login
//     auto tasks = expand_task_counts("2(x3),1");             // 2 2 2 1
//
// A name may have several brackets: "rack[0-1]node[1-2]" is four hosts, rack0node1 to rack1node2.
// Both fail with kInvalidArgument if the text is malformed, or there are more than kHostsMax. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

inline constexpr std::size_t kHostsMax = 65536;

Result<std::vector<std::string>> expand_host_list(std::string_view text);

// Splits at commas outside of brackets. nullopt if brackets do not match.
std::optional<std::vector<std::string_view>> split_list(std::string_view text);
Result<std::vector<int>> expand_task_counts(std::string_view text);

}  // namespace distrun
