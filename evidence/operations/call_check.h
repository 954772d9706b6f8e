// call_check compares how ranks call a collective: they must call the same one, with the same dtype
// and the same number of elements.
//
//     for (const auto& all : table.take_entered()) {
//       if (const auto found = call_difference_in(all)) report(text_of(*found));
//     }
//     // rank 3 called all_reduce (Float [512]) as number 4 of group 0, ranks 0-2 called all_reduce
//     // (Float [1024])
//
// Gloo does not check this: with the same number of bytes, it adds floats to doubles. Dtypes are
// not compared if ranks may pass no tensor (scatter), nor numbers of elements if they may differ
// (gather, all_to_all, reduce_scatter, all_gather to a list).
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence/operations/collective_table.h"

namespace distrun {

struct CallDifference {
  struct Call {
    Operation operation;  // Of one of its ranks.
    std::vector<int> ranks;
  };
  std::vector<Call> calls;  // At least two; the fewest ranks first.
};

// nullopt if the ranks agree.
std::optional<CallDifference> call_difference_in(const CollectiveOfRanks& all);

std::string text_of(const CallDifference& difference);

}  // namespace distrun
