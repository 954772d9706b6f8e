// divergence_of compares the collectives of the ranks of a test, group by group and one by one.
//
//     divergence_of({record_of_rank_0, record_of_rank_1, …})->text
//         // "rank 2 ran allreduce of Double [4] as collective 1 of the default group, ranks 0, 1
//         //  ran allreduce of Float [8]"
//         // "rank 2 had not entered collective 2 of the default group, allreduce of Float [3], in
//         //  which ranks 0, 1, 3 waited"
//
// Dtypes and sizes are not compared if ranks may pass different ones (scatter, all_to_all).  Sends,
// receives and groups without a name are not compared. The members of a group are unknown, so they
// are taken to be the ranks that ran collectives in it or, if others wait in the default group, all
// ranks.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

struct Divergence {
  enum class Kind {
    kDifferent,  // Ranks ran different collectives together.
    kMissing,    // Some ranks did not run a collective that others ran.
    kAwaited,    // The same, and others wait in it.
  };
  Kind kind;
  std::vector<int> ranks;  // The odd ones, in ascending order; all if none is in the minority.
  std::string text;
};

// `records` are by rank; null if unknown. Returns the first of kDifferent, else of kAwaited, else
// of kMissing.
std::optional<Divergence> divergence_of(const std::vector<const CollectiveRecord*>& records);

}  // namespace distrun
