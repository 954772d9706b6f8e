// What a thread of a rank is doing, in a few words: in which function of the user's code it is,
// and whether it waits there for other ranks.
//
//     const StackPlace place = place_of(readable(thread.frames));
//     place.text      // "all_reduce, called by step (train.py:40)", or "load (train.py:12)"
//     place.waits     // kForRanks: it is in a collective
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "evidence/stack.h"

namespace distrun {

struct StackPlace {
  enum class Waits { kNo, kForStore, kForRanks };
  Waits waits = Waits::kNo;
  std::string text;
  std::vector<Frame> path;  // Calls of the user's code, outermost first; may be empty.
};

// Requires frames from readable().
//
// The user's code is the program itself, without installed Python packages. Of the functions that
// it calls, `text` names the one that the user knows: all_reduce, not its wrappers.
StackPlace place_of(const std::vector<Frame>& frames);

// Whether the thread only waits for another thread to end: Thread.join or pthread_join. Takes all
// frames, not those from readable().
bool waits_for_thread(const std::vector<Frame>& frames);

}  // namespace distrun
