// RankPlaces says in one line what the ranks are doing. Ranks that others wait for come first, then
// those that wait.
//
//     RankPlaces places;
//     places.add(0, readable(frames), ""); …
//     places.line()
//     // rank 3 in load (train.py:12); ranks 0-2 wait in all_reduce, called by step (train.py:40)
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "evidence/report/stack_place.h"
#include "evidence/stack.h"

namespace distrun {

class RankPlaces {
 public:
  // The frames of its main thread. `awaited`: what its process waits for in the store, as
  // "for ready/3"; empty if unknown.
  void add(int rank, const std::vector<Frame>& frames, const std::string& awaited);

  // Empty without ranks.
  std::string line() const;

 private:
  struct Group {  // Ranks whose calls in the user's code are the same.
    StackPlace place;
    std::vector<int> ranks;
    std::vector<std::string> awaited;
  };

  std::string where(const Group& group) const;

  std::vector<Group> groups_;
};

}  // namespace distrun
