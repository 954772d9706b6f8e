// A rank's report about its test (test_facts.h) as JSON.
//
//     frame["collectives"] = to_json(record);
//     record = collective_record_from(frame.at("collectives"));
//
// Reading throws std::exception if the JSON is something else. Pure.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

nlohmann::json time_json(const std::optional<WallTime>& time);  // Microseconds since 1970, or null.
nlohmann::json to_json(const AssertionFailure& failure);
nlohmann::json to_json(const CollectiveRecord& record);

std::optional<WallTime> time_from(const nlohmann::json& time);
AssertionFailure failure_from(const nlohmann::json& failure);
CollectiveRecord collective_record_from(const nlohmann::json& record);

}  // namespace distrun
