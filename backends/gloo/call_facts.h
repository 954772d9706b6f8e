// CallFacts describes one rank's call of a collective, for comparison with other ranks.
//
//     const CallFacts mine = {{"collective", "all_reduce"}, {"reduce op", "SUM"}};
//     const std::string mine_sent = to_text(mine);                   // Sent to the other ranks.
//     disagreement({to_facts(sent_by_0), to_facts(sent_by_1)}, {0, 1});
//     // "the reduce op is SUM on rank 0 and MAX on rank 1"
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace distrun::internal {

struct CallFact {
  std::string name, value;
};
// The first fact is the collective's name. If names differ, other facts are not compared.
using CallFacts = std::vector<CallFact>;

std::string to_text(const CallFacts& facts);
CallFacts to_facts(std::string_view text);

// Equal in every process.
std::uint64_t fingerprint(std::string_view text);

// Describes the facts that differ and the ranks with each value; empty if all agree. `ranks[i]` is
// the global rank with `facts[i]`.
std::string disagreement(const std::vector<CallFacts>& facts, const std::vector<int>& ranks);

// The numbers of elements that a rank sends to each group rank, and expects from it.
struct Exchange {
  std::vector<std::int64_t> sent, expected;
};

// "rank 0 sends 3 numbers to rank 1, which expects 5", for each pair; empty if all agree.
std::string disagreement(const std::vector<Exchange>& exchanges, const std::vector<int>& ranks);

}  // namespace distrun::internal
