#include "evidence/flight/flight_record.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/json_number.h"
#include "common/text/parse_number.h"
#include "common/text/printable.h"

namespace distrun {

namespace {

using nlohmann::json;

const json& at(const json& object, const char* name) {
  static const json kNone;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNone : *found;
}

std::optional<std::int64_t> number_at(const json& object, const char* name) {
  const json& value = at(object, name);
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

std::string text_at(const json& list, std::size_t index) {
  return list.is_array() && list.size() > index && list[index].is_string()
             ? printable(list[index].get_ref<const std::string&>(), kOperationTextBytesMax)
             : "";
}

// Of "[0, 1, 5]"; empty if it is something else.
std::set<int> ranks_in(const json& list) {
  const json ranks = list.is_string() ? json::parse(list.get<std::string>(), nullptr, false) : list;
  std::set<int> all;
  if (!ranks.is_array()) return all;
  for (const json& rank : ranks) {
    const auto number = whole_number<int>(rank);
    if (!number || *number < 0 || *number > kGroupSizeMax) return {};
    all.insert(*number);
  }
  return all;
}

OperationTime time_of(std::int64_t since_1970_ns) {
  return std::clamp(OperationTime(std::chrono::nanoseconds(since_1970_ns)), OperationTime(),
                    kOperationTimeMax);
}

// "[1024, 2]" of [[1024, 2], [7]].
std::string first_sizes(const json& all) {
  if (!all.is_array() || all.empty() || !all[0].is_array()) return "";
  std::vector<std::int64_t> sizes;
  for (const json& size : all[0]) {
    if (size.is_number_integer()) sizes.push_back(size.get<std::int64_t>());
  }
  return printable(fmt::format("[{}]", fmt::join(sizes, ", ")), kOperationTextBytesMax);
}

// c10d's names of the operations, where users know others.
std::string users_name(std::string_view name) {
  if (name == "_all_gather_base") return "all_gather_into_tensor";
  if (name == "_reduce_scatter_base") return "reduce_scatter_tensor";
  if (name == "all_reduce_barrier") return "barrier";
  return std::string(name);
}

// "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0".
void name_operation(Operation& operation, std::string_view profiling_name) {
  const auto colon = profiling_name.find(':');
  std::string_view name = profiling_name;
  if (colon != std::string_view::npos) name.remove_prefix(colon + 1);
  const auto blank = name.find(' ');
  operation.op = printable(users_name(name.substr(0, blank)), kOperationTextBytesMax);
  if (blank == std::string_view::npos) return;
  const auto arrow = name.find_first_of("<>", blank);
  if (arrow == std::string_view::npos) return;
  const std::string_view peer = name.substr(arrow + (name[arrow] == '<' ? 2 : 1));
  if (const auto number = parse_number<int>(peer)) operation.peer = *number;
}

class Dump {
 public:
  Dump(const json& dump, int world_size) : dump_(dump), world_size_(world_size) {}

  std::optional<Operation> operation(const json& entry) const {
    const json& name = at(entry, "profiling_name");
    const json& group = at(entry, "process_group");
    const auto sequence = number_at(entry, "collective_seq_id");
    const auto began = number_at(entry, "time_created_ns");
    if (!name.is_string() || !sequence || !began || text_at(group, 0).empty()) return std::nullopt;
    Operation operation;
    name_operation(operation, name.get<std::string>());
    operation.number = static_cast<std::uint64_t>(number_at(entry, "record_id").value_or(0)) + 1;
    operation.dtype = text_at(at(entry, "input_dtypes"), 0);
    operation.sizes = first_sizes(at(entry, "input_sizes"));
    operation.group = text_at(group, 0);
    operation.group_size = size_of(operation.group, text_at(group, 1));
    operation.began = time_of(*began);
    if (at(entry, "is_p2p") == true) {
      operation.tells_end = false;
      return operation;
    }
    if (*sequence <= 0) return std::nullopt;
    operation.sequence = static_cast<std::uint32_t>(*sequence);
    if (has_ended(entry, *sequence)) {
      operation.ended = time_of(number_at(entry, "time_discovered_completed_ns").value_or(*began));
    }
    return operation;
  }

 private:
  int size_of(const std::string& group, const std::string& description) const {
    const auto ranks = ranks_in(at(at(at(dump_, "pg_config"), group.c_str()), "ranks"));
    if (ranks.empty() && description == "default_pg") return world_size_;
    return static_cast<int>(ranks.size());
  }

  // Operations that were started together have one end, that of the last.
  bool has_ended(const json& entry, std::int64_t sequence) const {
    if (at(entry, "state") == "completed" || at(entry, "retired") == true) return true;
    const auto id = number_at(entry, "pg_id");
    if (!id) return false;
    const json& status = at(at(dump_, "pg_status"), std::to_string(*id).c_str());
    return sequence <= number_at(status, "last_completed_collective").value_or(-1);
  }

  const json& dump_;
  const int world_size_;
};

}  // namespace

FlightRecord flight_record(const json& dump, int world_size) {
  const Dump reader(dump, world_size);
  FlightRecord record;
  const json& entries = at(dump, "entries");
  if (!entries.is_array()) return record;
  for (const json& entry : entries) {
    if (auto operation = reader.operation(entry))
      record.operations.push_back(std::move(*operation));
  }
  const json& groups = at(dump, "pg_config");
  if (!groups.is_object()) return record;
  for (const auto& [name, group] : groups.items()) {
    auto ranks = ranks_in(at(group, "ranks"));
    if (!ranks.empty()) record.members[printable(name, kOperationTextBytesMax)] = std::move(ranks);
  }
  return record;
}

std::vector<Operation> first_and_last(const std::vector<Operation>& operations) {
  struct Ends {
    const Operation *first = nullptr, *last = nullptr;
  };
  std::map<std::string, Ends> groups;
  for (const Operation& operation : operations) {
    if (!operation.is_collective()) continue;
    Ends& ends = groups[operation.group];
    if (ends.first == nullptr && operation.is_in_progress()) ends.first = &operation;
    ends.last = &operation;
  }
  std::vector<Operation> needed;
  for (const auto& [group, ends] : groups) {
    if (ends.first != nullptr && ends.first != ends.last) needed.push_back(*ends.first);
    needed.push_back(*ends.last);
  }
  return needed;
}

}  // namespace distrun
