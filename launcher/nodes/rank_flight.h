// RankFlight is a message from a node to node 0, at the end of an attempt that did not go on: what
// the flight recorder of a rank knew then. Each rank has its own message.
//
//     {"type": "flight", "rank": 5, "members": {"0": [0, 1, 2, 3, 4, 5]}, "operations": …}
//
// Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/operations/operation.h"
#include "common/rank.h"

namespace distrun {

struct RankFlight {
  int attempt = 0;
  Rank rank{0};
  std::vector<Operation> operations;             // As first_and_last() of evidence/flight.
  std::map<std::string, std::set<int>> members;  // Of groups: ranks of the run.
  friend bool operator==(const RankFlight&, const RankFlight&) = default;
};

// Without the members of the largest groups, if it would otherwise not fit into a message. nullopt:
// the rest does not fit either.
std::optional<RankFlight> fit_into_message(RankFlight flight);

nlohmann::json json_of(const RankFlight& flight);

// Throws std::exception for other data. Texts are printable and short.
RankFlight rank_flight_from(const nlohmann::json& object);

}  // namespace distrun
