#include "evidence/flight/flight_record.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/parse_number.h"

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
             ? list[index].get<std::string>()
             : "";
}

// Of "[0, 1, 5]".
int count_of_ranks(const json& ranks) {
  const std::string text = ranks.is_string() ? ranks.get<std::string>() : "";
  if (text.size() < 3) return 0;
  return 1 + static_cast<int>(std::count(text.begin(), text.end(), ','));
}

// "[1024, 2]" of [[1024, 2], [7]].
std::string first_sizes(const json& all) {
  if (!all.is_array() || all.empty() || !all[0].is_array()) return "";
  std::vector<std::int64_t> sizes;
  for (const json& size : all[0]) {
    if (size.is_number_integer()) sizes.push_back(size.get<std::int64_t>());
  }
  return fmt::format("[{}]", fmt::join(sizes, ", "));
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
  operation.op = users_name(name.substr(0, blank));
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
    operation.began = OperationTime(std::chrono::nanoseconds(*began));
    if (at(entry, "is_p2p") == true) {
      operation.tells_end = false;
      return operation;
    }
    if (*sequence <= 0) return std::nullopt;
    operation.sequence = static_cast<std::uint32_t>(*sequence);
    if (has_ended(entry, *sequence)) {
      operation.ended = OperationTime(std::chrono::nanoseconds(
          number_at(entry, "time_discovered_completed_ns").value_or(*began)));
    }
    return operation;
  }

 private:
  int size_of(const std::string& group, const std::string& description) const {
    const int size = count_of_ranks(at(at(at(dump_, "pg_config"), group.c_str()), "ranks"));
    return size == 0 && description == "default_pg" ? world_size_ : size;
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

std::vector<Operation> operations_in(const json& dump, int world_size) {
  const Dump reader(dump, world_size);
  std::vector<Operation> operations;
  const json& entries = at(dump, "entries");
  if (!entries.is_array()) return operations;
  for (const json& entry : entries) {
    if (auto operation = reader.operation(entry)) operations.push_back(std::move(*operation));
  }
  return operations;
}

}  // namespace distrun
