// For tests of Join: how ranks with uneven inputs train. All ranks draw the same pattern from a
// seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "distrun/ddp_options.h"

namespace distrun::testing {

struct JoinFault {
  enum class Place {
    kBody,      // Before a forward.
    kBackward,  // After a forward, while other ranks are in their backward.
    kJoinable,  // In the step of a joinable.
    kMainHook,  // After this rank has joined, before others have.
    kPostHook,
  };
  Place place;
  int rank;
  int step;  // Counts that rank's inputs, or its main hooks.
};

struct JoinPattern {
  std::uint64_t seed;
  std::vector<int> inputs;  // By rank.
  DdpOptions options;
  std::string uses;  // As for NetParts::of().
  bool half;         // The built-in hook compresses gradients.
  int sync_every;    // Every n-th backward reduces.
  bool divide_by_initial_world_size;
  bool counter;        // Another joinable takes part.
  bool counter_first;  // It comes before the module.
  std::optional<JoinFault> fault;

  int inputs_max() const;
  int ranks_in(int step) const;
};

constexpr int kJoinInputsMax = 6;

// Draws a pattern without a fault.
JoinPattern join_pattern(std::uint64_t seed, int ranks);
// Draws the same pattern and a fault, and adjusts the pattern so that the fault occurs.
JoinPattern faulty_join_pattern(std::uint64_t seed, int ranks);

nlohmann::json to_json(const JoinPattern& pattern);

}  // namespace distrun::testing
