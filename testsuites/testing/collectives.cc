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

constexpr std::size_t kNumbersMax = 100'000;

// An entry of the trace: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp.
struct Entry {
  std::uint64_t id = 0;      // From 0 in each process.
  std::uint64_t number = 0;  // Within its group.
  bool has_ended = false;    // Gloo's "state" always stays "scheduled".
  std::string group;         // Its name.
  std::string description;   // Its description, or else its name; empty if it has neither.
  Collective collective;     // Without a count.
};

// One dtype if all inputs share it.
std::string dtype_of(std::vector<std::string> dtypes) {
  dtypes.erase(std::unique(dtypes.begin(), dtypes.end()), dtypes.end());
  return fmt::format("{}", fmt::join(dtypes, ", "));
}

// From a name and a description: ["0", "default_pg"].
std::string description_of(const std::vector<std::string>& words) {
  for (auto word = words.rbegin(); word != words.rend(); ++word) {
    if (!word->empty() && *word != "undefined") return *word;
  }
  return "";
}

Entry entry_of(const json& entry) {
  const auto group = entry.at("process_group").get<std::vector<std::string>>();
  return {.id = entry.at("record_id"),
          .number = entry.at("collective_seq_id"),
          .has_ended = entry.at("retired"),
          .group = group.empty() ? "" : group.front(),
          .description = description_of(group),
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

bool are_alike(const Collective& a, const Collective& b) {
  return a.op == b.op && a.sizes == b.sizes && a.dtype == b.dtype;
}

void count(std::vector<Collective>& collectives, const Collective& made) {
  auto found = std::find_if(collectives.begin(), collectives.end(),
                            [&](const Collective& other) { return are_alike(other, made); });
  if (found == collectives.end()) found = collectives.insert(found, made);
  ++found->count;
}

std::size_t numbers_in(const Collective& one) {
  std::size_t count = 0;
  for (const auto& sizes : one.sizes) count += 1 + sizes.size();
  return count;
}

// `numbers` counts the numbers of all stretches, because frames have a maximum size.
void append(CollectiveRecord& record, std::size_t& numbers, const Entry& entry) {
  auto& all = record.stretches;
  const auto last = std::find_if(all.rbegin(), all.rend(), [&](const CollectiveStretch& one) {
    return one.group == entry.group;
  });
  const bool goes_on =
      last != all.rend() && last->has_ended && are_alike(last->collective, entry.collective);
  if (!goes_on) {
    numbers += numbers_in(entry.collective);
    record.is_whole = record.is_whole && all.size() < kStretchesMax && numbers <= kNumbersMax;
  }
  if (!record.is_whole) return;
  CollectiveStretch& stretch =
      goes_on ? *last
              : all.emplace_back(CollectiveStretch{entry.group, entry.description, entry.collective,
                                                   entry.has_ended});
  ++stretch.collective.count;
  stretch.has_ended = entry.has_ended;
}

// "allreduce, numbers 3 to 7 of group default_pg".
std::string name_of(const Entry& first, std::uint64_t last) {
  const std::string numbers = first.number == last
                                  ? fmt::format("number {}", last)
                                  : fmt::format("numbers {} to {}", first.number, last);
  const std::string name = fmt::format("{}, {}", first.collective.op, numbers);
  return first.description.empty() ? name : fmt::format("{} of group {}", name, first.description);
}

std::string inputs_of(const Collective& collective) {
  if (collective.sizes.empty()) return "no tensors";
  return fmt::format("{} {}", collective.dtype, fmt::join(collective.sizes, " "));
}

}  // namespace

std::string op_of(std::string title) {
  static const std::map<std::string, std::string> names = {
      {"all_reduce", "allreduce"},
      {"sparse_all_reduce", "allreduce_sparse"},
      {"all_gather", "allgather"},
      {"all_to_all", "alltoall"}};
  title.erase(0, title.find(':') + 1);
  const auto found = names.find(title);
  return found == names.end() ? title : found->second;
}

void record_collectives() {
  ::setenv("TORCH_FR_BUFFER_SIZE", std::to_string(kCollectivesKept).c_str(), /*overwrite=*/0);
}

std::string collectives_trace() {
  return c10d::dump_fr_trace_json(/*includeCollectives=*/true, /*onlyActive=*/false);
}

CollectiveRecord collectives_made() { return collectives_in(collectives_trace()); }

CollectiveRecord collectives_in(std::string_view trace) {
  CollectiveRecord record;
  const auto entries = entries_in(trace);
  std::size_t numbers = 0;
  for (const Entry& entry : entries) {
    count(record.counted, entry.collective);
    append(record, numbers, entry);
  }
  if (!entries.empty() && entries.front().id > 0) {
    const auto forgotten = static_cast<int>(entries.front().id);
    record.counted.push_back({.op = "(forgotten)", .count = forgotten});
    record.is_whole = false;
  }
  return record;
}

std::string last_collective_in(std::string_view trace) {
  const auto entries = entries_in(trace);
  if (entries.empty()) return "no collective has run";
  std::string lines;
  for (auto first = entries.begin(); first != entries.end();) {
    auto next = first + 1;
    // Equal consecutive ones are one line.
    while (next != entries.end() && !next->has_ended && next->group == first->group &&
           are_alike(next->collective, first->collective)) {
      ++next;
    }
    const std::uint64_t last = (next - 1)->number;
    if (!first->has_ended) {
      lines += fmt::format("{}{}, {} not completed: {}", lines.empty() ? "" : "\n",
                           name_of(*first, last), first->number == last ? "has" : "have",
                           inputs_of(first->collective));
      first = next;
    } else {
      ++first;
    }
  }
  if (!lines.empty()) return lines;
  const Entry& last = entries.back();
  return fmt::format("nothing is under way; the last collective, {}, has completed: {}",
                     name_of(last, last.number), inputs_of(last.collective));
}

}  // namespace distrun
