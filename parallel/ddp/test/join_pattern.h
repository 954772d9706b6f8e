// For the tests of Join: how ranks with uneven inputs train, drawn from a seed, so that all ranks
// agree on it without a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "distrun/ddp_options.h"

namespace distrun::testing {

// What goes wrong on one rank.
struct JoinFault {
  enum class Place {
    kBody,      // Before a forward.
    kBackward,  // After it: the others are in their backward.
    kJoinable,  // In the step of a joinable.
    kMainHook,  // When this rank has joined, and others have not.
    kPostHook,
  };
  Place place;
  int rank;
  int step;  // Of that rank's inputs, or of those that it lacks.
};

struct JoinPattern {
  std::uint64_t seed;
  std::vector<int> inputs;  // Of each rank.
  DdpOptions options;
  std::string uses;  // Of the network: NetParts::of() has the words.
  bool half;         // Gradients are compressed by the built-in hook.
  int sync_every;    // Of so many backwards the last reduces.
  bool divide_by_initial_world_size;
  bool counter;        // Another joinable takes part,
  bool counter_first;  // before the module.
  std::optional<JoinFault> fault;

  int inputs_max() const;
  // How many ranks have an input in that step.
  int ranks_in(int step) const;
};

constexpr int kJoinInputsMax = 6;

// Nothing goes wrong in it.
JoinPattern join_pattern(std::uint64_t seed, int ranks);
// The same, where something does.
JoinPattern faulty_join_pattern(std::uint64_t seed, int ranks);

// For ranks in Python, and for people.
nlohmann::json to_json(const JoinPattern& pattern);

}  // namespace distrun::testing
