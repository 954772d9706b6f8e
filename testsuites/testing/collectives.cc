#include "testsuites/testing/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

namespace distrun {

namespace {

using nlohmann::json;

// An entry of the trace; see torch/csrc/distributed/c10d/FlightRecorderDetail.hpp.
struct Entry {
  std::uint64_t id = 0;      // From 0 in each process.
  std::uint64_t number = 0;  // Within its group.
  bool has_ended = false;    // Gloo's "state" always stays "scheduled".
  std::string group;         // Empty if it has no name.
  Collective collective;     // Without a count.
};

// The c10d::Backend method for a profiling name such as "gloo:all_reduce".
std::string op_of(std::string name) {
  static const std::map<std::string, std::string> names = {
      {"all_reduce", "allreduce"},
      {"sparse_all_reduce", "allreduce_sparse"},
      {"all_gather", "allgather"},
      {"all_to_all", "alltoall"}};
  name.erase(0, name.find(':') + 1);
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

// One dtype if all inputs share it.
std::string dtype_of(std::vector<std::string> dtypes) {
  dtypes.erase(std::unique(dtypes.begin(), dtypes.end()), dtypes.end());
  return fmt::format("{}", fmt::join(dtypes, ", "));
}

// A group's description, or else its name, from ["0", "default_pg"].
std::string group_of(const json& name_and_description) {
  const auto words = name_and_description.get<std::vector<std::string>>();
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if (!word->empty() && *word != "undefined") return *word;
  }
  return "";
}

Entry entry_of(const json& entry) {
  return {.id = entry.at("record_id"),
          .number = entry.at("collective_seq_id"),
          .has_ended = entry.at("retired"),
          .group = group_of(entry.at("process_group")),
          .collective = {.op = op_of(entry.at("profiling_name")),
                         .sizes = entry.at("input_sizes"),
                         .dtype = dtype_of(entry.at("input_dtypes"))}};
}

// Oldest first.
std::vector<Entry> entries_in(std::string_view trace) {
  const json all = json::parse(trace);
  std::vector<Entry> entries;
  for (const auto& entry : all.value("entries", json::array())) {
    entries.push_back(entry_of(entry));
  }
  return entries;
}

void count(std::vector<Collective>& collectives, const Collective& made) {
  const auto like = [&](const Collective& other) {
    return other.op == made.op && other.sizes == made.sizes && other.dtype == made.dtype;
  };
  auto found = std::find_if(collectives.begin(), collectives.end(), like);
  if (found == collectives.end()) found = collectives.insert(found, made);
  ++found->count;
}

std::string name_of(const Entry& entry) {
  const std::string name = fmt::format("{}, number {}", entry.collective.op, entry.number);
  return entry.group.empty() ? name : fmt::format("{} of group {}", name, entry.group);
}

std::string inputs_of(const Collective& collective) {
  if (collective.sizes.empty()) return "no tensors";
  return fmt::format("{} {}", collective.dtype, fmt::join(collective.sizes, " "));
}

std::string trace_of_this_process() {
  return c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
}

}  // namespace

void record_collectives() {
  ::setenv("TORCH_FR_BUFFER_SIZE", std::to_string(kCollectivesKept).c_str(), /*overwrite=*/0);
}

std::vector<Collective> collectives_made() { return collectives_in(trace_of_this_process()); }

std::string last_collective() { return last_collective_in(trace_of_this_process()); }

std::vector<Collective> collectives_in(std::string_view trace) {
  std::vector<Collective> collectives;
  const auto entries = entries_in(trace);
  for (const Entry& entry : entries) count(collectives, entry.collective);
  if (!entries.empty() && entries.front().id > 0) {
    const auto forgotten = static_cast<int>(entries.front().id);
    collectives.push_back({.op = "(forgotten)", .count = forgotten});
  }
  return collectives;
}

std::string last_collective_in(std::string_view trace) {
  const auto entries = entries_in(trace);
  if (entries.empty()) return "no collective has run";
  std::string lines;
  for (const Entry& entry : entries) {
    if (entry.has_ended) continue;
    lines += fmt::format("{}{}, has not completed: {}", lines.empty() ? "" : "\n", name_of(entry),
                         inputs_of(entry.collective));
  }
  if (!lines.empty()) return lines;
  return fmt::format("nothing is under way; the last collective, {}, has completed: {}",
                     name_of(entries.back()), inputs_of(entries.back().collective));
}

}  // namespace distrun
