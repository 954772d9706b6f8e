#include "launcher/nodes/rank_flight.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/text/json_number.h"
#include "common/text/printable.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/nodes/node_operations.h"

namespace distrun {

namespace {

using FlightJson = nlohmann::json;

std::map<std::string, std::set<int>> members_from(const FlightJson& object) {
  std::map<std::string, std::set<int>> members;
  for (const auto& [group, ranks] : object.items()) {
    auto& its = members[printable(group, kOperationTextBytesMax)];
    for (const FlightJson& rank : ranks) {
      const int number = required_number<int>(rank);
      if (number < 0 || number > kGroupSizeMax) throw std::out_of_range("no member of a group");
      its.insert(number);
    }
  }
  return members;
}

}  // namespace

std::optional<RankFlight> fit_into_message(RankFlight flight) {
  const auto fits = [&] { return to_line(flight).size() <= kNodeMessageBytesMax; };
  while (!fits()) {
    const auto largest = std::max_element(
        flight.members.begin(), flight.members.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (largest == flight.members.end()) return std::nullopt;
    flight.members.erase(largest);
  }
  return flight;
}

nlohmann::json json_of(const RankFlight& flight) {
  NodeOperations operations{.attempt = flight.attempt};
  for (const Operation& operation : flight.operations) {
    operations.operations.push_back({flight.rank, operation});
  }
  return {{"type", "flight"},
          {"rank", flight.rank.value()},
          {"members", flight.members.empty() ? FlightJson::object() : FlightJson(flight.members)},
          {"operations", json_of(operations)}};
}

RankFlight rank_flight_from(const nlohmann::json& object) {
  NodeOperations operations = node_operations_from(object.at("operations"));
  const int rank = required_number<int>(object.at("rank"));
  if (rank < 0 || rank > kGroupSizeMax) throw std::out_of_range("no rank");
  RankFlight flight{.attempt = operations.attempt,
                    .rank = Rank(rank),
                    .members = members_from(object.at("members"))};
  for (auto& [its_rank, operation] : operations.operations) {
    if (its_rank != flight.rank) throw std::out_of_range("operations of two ranks");
    flight.operations.push_back(std::move(operation));
  }
  return flight;
}

}  // namespace distrun
