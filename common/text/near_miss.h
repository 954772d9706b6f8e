// Finds the known word that a user probably meant, for "did you mean …?".
//
//     near_miss("lunch", {"launch", "store", "test"})    // "launch"
//     near_miss("bogus", {"launch", "store", "test"})    // nothing
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distrun {

// The nearest of `words` by edit_distance(): up to two letters or a quarter of `word`, one letter
// for short words. Words that start with `word` (three letters or more) come first.
std::optional<std::string> near_miss(std::string_view word, const std::vector<std::string>& words);

// ": did you mean PREFIXword?", or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words,
                         std::string_view prefix = "");

}  // namespace distrun
