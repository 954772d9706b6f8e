// The facts about a rank (verdict.h) and the view of a part (attempt_part.h) as JSON.
//
// Reading throws std::exception if the JSON is something else. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "testsuites/harness/run/attempt_part.h"
#include "testsuites/harness/run/verdict.h"

namespace distrun {

nlohmann::json to_json(const RankFacts& facts);  // Without RankFacts::order and node_lost.
RankFacts rank_facts_from(const nlohmann::json& facts);

nlohmann::json to_json(const PartView& view);
PartView part_view_from(const nlohmann::json& view);

}  // namespace distrun
