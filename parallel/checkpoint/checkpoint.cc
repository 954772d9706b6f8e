#include "distrun/checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "common/text/valid_utf8.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/checkpoint/box.h"
#include "parallel/checkpoint/checkpoint_file.h"
#include "parallel/checkpoint/checkpoint_folder.h"
#include "parallel/checkpoint/checkpoint_state.h"
#include "parallel/checkpoint/folder_lock.h"
#include "parallel/checkpoint/load_sources.h"
#include "parallel/checkpoint/save_plan.h"

namespace distrun {

namespace {

using internal::CheckpointFile;
using internal::FilePart;
using internal::FileRecord;
using internal::PartFacts;
using nlohmann::json;

// The ranks that save or load together. An error of their collectives, such as after a peer is
// lost, names the call.
class Team {
  template <class Act>
  auto in_call(const Act& act) const {
    try {
      return act();
    } catch (const c10::DistBackendError& error) {
      TORCH_CHECK_WITH(DistBackendError, false, call_, ": ", error.what_without_backtrace());
    }
  }

 public:
  // `call` is "save_checkpoint to PATH".
  Team(const Group& group, std::string call)
      : call_(std::move(call)), group_(group), is_alone_(group.is_default() && !is_initialized()) {
    TORCH_CHECK(is_alone_ || group.is_member(),
                "a rank that is not in the group cannot save or load a checkpoint with it");
  }

  int rank() const { return is_alone_ ? 0 : get_rank(group_); }
  std::vector<std::string> all_gather(const std::string& text) const {
    return is_alone_ ? std::vector{text} : in_call([&] { return all_gather_bytes(text, group_); });
  }
  // On the first rank.
  std::vector<std::string> gather(const std::string& text) const {
    if (is_alone_) return {text};
    return in_call([&] { return gather_bytes(text, GroupRank(0), group_); });
  }
  std::string from_first(const std::string& text) const {
    if (is_alone_) return text;
    return in_call([&] { return broadcast_bytes(text, GroupRank(0), group_); });
  }
  int global_rank(std::size_t rank) const {
    const int number = static_cast<int>(rank);
    return is_alone_ ? number : get_global_rank(group_, number);
  }
  std::string name_of(std::size_t rank) const { return c10::str("rank ", global_rank(rank)); }

 private:
  const std::string call_;
  const Group& group_;
  const bool is_alone_;
};

// Returns the text of the error, or an empty one.
std::string error_in(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The first error of any rank, with the rank; empty if there is none.
std::string first_error(const Team& team, const std::vector<std::string>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (!errors[rank].empty()) return team.name_of(rank) + ": " + errors[rank];
  }
  return "";
}

// Runs `act` on all ranks. Returns the first error of any.
std::string agreed_error(const Team& team, const std::function<void()>& act) {
  return first_error(team, team.all_gather(error_in(act)));
}

// Runs `act` on the first rank. Returns its result, or throws its error, on all ranks.
std::string on_first(const Team& team, const char* function,
                     const std::function<std::string()>& act) {
  std::string answer;
  if (team.rank() == 0) {
    std::string result;
    const std::string error = error_in([&] { result = act(); });
    answer = error.empty() ? "+" + result : "-" + error;
  }
  answer = team.from_first(answer);
  TORCH_CHECK(answer.at(0) == '+', function, ": ", answer.substr(1));
  return answer.substr(1);
}

// Adds the first rank to the error of `act`.
template <class Act>
auto naming_first(const Team& team, const Act& act) {
  decltype(act()) result{};
  const std::string error = error_in([&] { result = act(); });
  TORCH_CHECK(error.empty(), team.name_of(0), ": ", error);
  return result;
}

// Throws the error of a load, if there is one, on all ranks. A checkpoint that another program has
// replaced meanwhile looks damaged: its files are not those of the list.
void check_loaded(const Team& team, const std::string& path, const std::string& list,
                  const std::string& error) {
  if (error.empty()) return;
  const std::string now = on_first(team, "load_checkpoint", [&] {
    std::string found;
    error_in([&] { found = internal::find_checkpoint(path); });
    return found;
  });
  TORCH_CHECK(now == list, "load_checkpoint: ", path,
              " has changed while it was being loaded; load it again");
  TORCH_CHECK(false, "load_checkpoint: ", error);
}

std::vector<PartFacts> facts_of(const CheckpointState& state) {
  std::vector<PartFacts> facts;
  facts.reserve(state.parts().size());
  for (const CheckpointPart& part : state.parts()) {
    facts.push_back({.name = part.name,
                     .dtype = part.values.scalar_type(),
                     .sizes = part.sizes,
                     .box = {part.offsets, part.values.sizes().vec()}});
  }
  return facts;
}

// All ranks tell their parts, or why they have none. Returns those that this rank writes.
std::vector<std::size_t> own_writes(const Team& team, const std::string& path,
                                    const CheckpointState& state, const std::string& error) {
  const auto said = team.all_gather(
      error.empty() ? "+" + path + '\0' + internal::text_of(facts_of(state)) : "-" + error);
  std::vector<std::vector<PartFacts>> all;
  std::vector<int> global_ranks;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    TORCH_CHECK(said[rank].at(0) == '+', "save_checkpoint: ", team.name_of(rank), ": ",
                said[rank].substr(1));
    const std::size_t end = said[rank].find('\0');
    const std::string its = said[rank].substr(1, end - 1),
                      first = said[0].substr(1, said[0].find('\0') - 1);
    TORCH_CHECK_VALUE(its == first, "save_checkpoint: ", team.name_of(0), " saves to '", first,
                      "' and ", team.name_of(rank), " to '", its, "'; expected the same path");
    all.push_back(internal::parts_in(said[rank].substr(end + 1)));
    global_ranks.push_back(team.global_rank(rank));
  }
  return internal::parts_to_write(all, team.rank(), global_ranks);
}

// A file has each name once, so the second part of a tensor goes to a second file.
std::vector<std::vector<FilePart>> by_file(const CheckpointState& state,
                                           const std::vector<std::size_t>& writes) {
  std::vector<std::vector<FilePart>> files;
  std::map<std::string, std::size_t> seen;
  for (const std::size_t index : writes) {
    const CheckpointPart& part = state.parts()[index];
    const std::size_t file = seen[part.name]++;
    if (file == files.size()) files.emplace_back();
    files[file].push_back({part.name, {part.offsets, part.values.sizes().vec()}, part.values});
  }
  return files;
}

std::string padded(std::size_t number) {
  const std::string text = std::to_string(number);
  return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
}

// The names of HuggingFaceStorageWriter.
std::string file_name(int rank, std::size_t file, std::size_t files) {
  return "shard-" + padded(static_cast<std::size_t>(rank) + 1) + "-model-" + padded(file + 1) +
         "-of-" + padded(files) + ".safetensors";
}

// A rank sends it to the first one after it has written its files.
std::string report_of(const std::string& error, const std::vector<FileRecord>& records) {
  json files = json::array();
  for (const FileRecord& one : records) files.push_back({one.name, one.bytes, one.checksums});
  return json{{"error", valid_utf8(error)}, {"files", std::move(files)}}.dump();
}

void read_report(const std::string& text, std::string& error, std::vector<FileRecord>& records) {
  const json report = json::parse(text);
  error = report.at("error").get<std::string>();
  for (const json& one : report.at("files")) {
    records.push_back({.name = one.at(0).get<std::string>(),
                       .bytes = one.at(1).get<std::uint64_t>(),
                       .checksums = one.at(2).get<std::vector<std::uint64_t>>()});
  }
}

// `lock` is the first rank's. Afterwards, no rank has it.
void write_and_commit(const Team& team, const std::string& path, const std::string& unfinished,
                      const std::vector<std::vector<FilePart>>& files, internal::FolderLock& lock) {
  std::vector<FileRecord> records;
  const std::string error = error_in([&] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      records.push_back(internal::write_checkpoint_file(
          unfinished, file_name(team.rank(), i, files.size()), files[i]));
    }
  });
  const auto reports = team.gather(report_of(error, records));
  on_first(team, "save_checkpoint", [&] {
    std::vector<std::string> errors;
    std::vector<FileRecord> all;
    for (const std::string& report : reports) {
      errors.emplace_back();
      read_report(report, errors.back(), all);
    }
    std::string first = first_error(team, errors);
    if (first.empty()) {
      first = error_in([&] { internal::commit_checkpoint(unfinished, path, all); });
      if (!first.empty()) first = team.name_of(0) + ": " + first;
    }
    if (!first.empty()) internal::discard_checkpoint(unfinished);
    lock.release();  // Before another rank returns, and may start the next save.
    TORCH_CHECK(first.empty(), first);
    return std::string();
  });
}

}  // namespace

namespace internal {

void save_state(const std::string& path, const std::function<CheckpointState()>& make,
                const Group& group) {
  const Team team(group, "save_checkpoint to " + path);
  CheckpointState state;
  const std::string error = error_in([&] { state = make(); });
  const auto files = by_file(state, own_writes(team, path, state, error));
  FolderLock lock;  // On the first rank.
  try {
    on_first(team, "save_checkpoint", [&] {
      lock = naming_first(team, [&] { return begin_checkpoint(path); });
      return std::string();
    });
    write_and_commit(team, path, unfinished_name(path), files, lock);
  } catch (...) {
    // Of a collective, such as after a peer is lost: the errors of files come with the reports.
    if (lock.is_held()) discard_checkpoint(unfinished_name(path));
    throw;
  }
}

}  // namespace internal

void save_checkpoint(const std::string& path, const CheckpointState& state,
                     const CheckpointOptions& options) {
  internal::save_state(
      path, [&] { return internal::state_to_save(state); }, options.process_group);
}

void load_checkpoint(const std::string& path, CheckpointState& state,
                     const CheckpointOptions& options) {
  const Team team(options.process_group, "load_checkpoint from " + path);
  const std::string found = on_first(team, "load_checkpoint", [&] {
    return path + '\0' + naming_first(team, [&] { return internal::find_checkpoint(path); });
  });
  const std::size_t end = found.find('\0');
  const std::string path_of_first = found.substr(0, end), list = found.substr(end + 1);
  std::vector<std::unique_ptr<CheckpointFile>> files;
  internal::Sources sources;
  std::string error = agreed_error(team, [&] {
    files = internal::open_checkpoint(list);
    sources = internal::sources_in(files);
  });
  check_loaded(team, path, list, error);
  internal::StateToLoad all;
  std::vector<CheckpointPart> parts;
  error = agreed_error(team, [&] {
    TORCH_CHECK(path == path_of_first, "the path is '", path, "', and '", path_of_first, "' on ",
                team.name_of(0), "; expected the same path");
    all = internal::state_to_load(state,
                                  [&](const std::string& name) { return sources.contains(name); });
    parts = internal::parts_to_load(all.state, sources);
    internal::check_sources(path, parts, sources);
  });
  TORCH_CHECK_VALUE(error.empty(), "load_checkpoint: ", error);
  error = agreed_error(team, [&] { internal::read_parts(parts, sources); });
  check_loaded(team, path, list, error);
  all.finish();
}

}  // namespace distrun
