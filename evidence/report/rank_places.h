// RankPlaces says in one line what the ranks are doing: first those that others wait for, then
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
  // The frames of the main thread. `awaited`: what the process waits for in the store, such as "for
  // ready/3"; empty if unknown.
  void add(int rank, const std::vector<Frame>& frames, const std::string& awaited);

  // Empty if there are no ranks.
  std::string line() const;

 private:
  struct Group {  // Ranks with the same calls in the user's code.
    StackPlace place;
    std::vector<int> ranks;
    std::vector<std::string> awaited;
  };

  std::string where(const Group& group) const;

  std::vector<Group> groups_;
};

}  // namespace distrun
