// digest_check compares what the ranks received in a collective that gives all of them the same.
//
//     for (const auto& all : table.take_ended()) {
//       if (const auto found = difference_in(all)) report(text_of(*found));
//     }
//     // rank 2 received other values than ranks 0, 1, 3 in all_reduce, number 12 of group 0
//     // (Float [1000]), in elements 63 to 125
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/operations/digest.h"
#include "evidence/operations/collective_table.h"

namespace distrun {

struct DigestDifference {
  Operation operation;
  std::vector<std::vector<int>> ranks;   // Ranks that agree; the most ranks first.
  std::optional<ElementRange> elements;  // That contain the differences.
};

// Whether every rank receives the same values, and recorded digests of them.
bool can_be_compared(const CollectiveOfRanks& all);

// nullopt if the ranks agree, or cannot be compared.
std::optional<DigestDifference> difference_in(const CollectiveOfRanks& all);

std::string text_of(const DigestDifference& difference);

}  // namespace distrun
