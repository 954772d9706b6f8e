#include "launcher/plan/log_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text/parse_number.h"
#include "common/text/split.h"
#include "common/text/text_cut.h"
#include "common/text/words.h"

namespace distrun {

namespace {

Error invalid(std::string message) {
  return Error{ErrorKind::kInvalidArgument, std::move(message)};
}

std::optional<int> value_of(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return std::nullopt;
  return text[0] - '0';
}

Result<LocalRank> local_rank_of(std::string_view text, int workers) {
  const auto number = parse_number<int>(text);
  if (!number) return number.error();
  if (*number < 0 || *number >= workers) {
    return invalid(
        fmt::format("local rank {} does not exist; the last local rank on this node is {}", *number,
                    workers - 1));
  }
  return LocalRank(*number);
}

}  // namespace

std::string_view name_of(Stream stream) { return stream == Stream::kOut ? "stdout" : "stderr"; }

bool StreamsByRank::has(LocalRank worker, Stream stream) const {
  const auto found = some.find(worker);
  const int value = found == some.end() ? all : found->second;
  return (value & (stream == Stream::kOut ? kOut : kErr)) != 0;
}

bool StreamsByRank::is_any() const {
  return all != kNone || std::any_of(some.begin(), some.end(),
                                     [](const auto& entry) { return entry.second != kNone; });
}

bool LogChoice::keeps_files() const {
  return !is_off() && (!folder.empty() || redirects.is_any() || tees.is_any());
}

const std::vector<std::string>& LogChoice::filters(Stream stream) const {
  return stream == Stream::kOut ? out_filters : err_filters;
}

LogChoice log_choice_of(LogChoice choice, LocalRank worker) {
  for (StreamsByRank* streams : {&choice.redirects, &choice.tees}) {
    if (const auto its = streams->some.find(worker); its != streams->some.end()) {
      streams->all = its->second;
    }
    streams->some.clear();
  }
  if (choice.shown) {
    choice.shown = choice.shown->contains(worker) ? std::set{LocalRank(0)} : std::set<LocalRank>();
  }
  return choice;
}

Result<StreamsByRank> parse_streams(std::string_view text, int workers) {
  StreamsByRank streams;
  if (const auto value = value_of(text)) {
    streams.all = *value;
    return streams;
  }
  const auto wrong = [&] {
    return invalid(
        fmt::format("'{}' is neither 0 (none), 1 (stdout), 2 (stderr), 3 (both), nor a "
                    "list of LOCAL_RANK:VALUE such as 0:3,1:2",
                    text));
  };
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos) return wrong();
    const auto value = value_of(part.substr(colon + 1));
    if (!value || !parse_number<int>(part.substr(0, colon))) return wrong();
    const auto worker = local_rank_of(part.substr(0, colon), workers);
    if (!worker) return worker.error();
    streams.some[*worker] = *value;
  }
  return streams;
}

Result<std::optional<std::set<LocalRank>>> parse_local_ranks(std::string_view text, int workers) {
  std::optional<std::set<LocalRank>> ranks;
  if (text.empty()) return ranks;
  ranks.emplace();
  for (const std::string_view part : split(text, ',')) {
    const auto worker = local_rank_of(trimmed(part), workers);
    if (!worker) return worker.error().with_context(fmt::format("'{}'", text));
    ranks->insert(*worker);
  }
  return ranks;
}

std::vector<std::string> parse_filters(std::string_view text) {
  std::vector<std::string> filters(1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') {
      filters.back() += text[at];
    } else if (text.substr(at).starts_with(",,")) {
      filters.back() += ',';
      ++at;
    } else {
      filters.emplace_back();
    }
  }
  // An empty filter would match every line.
  std::erase(filters, "");
  return filters;
}

StreamRoute route_of(const LogChoice& choice, const std::string& run_folder, LocalRank worker,
                     Stream stream, int attempt) {
  StreamRoute route;
  route.shown = !choice.shown || choice.shown->contains(worker);
  if (!choice.keeps_files()) return route;
  route.teed = choice.tees.has(worker, stream);
  if (!route.teed && !choice.redirects.has(worker, stream)) return route;
  route.file =
      fmt::format("{}/{}.log", worker_folder(run_folder, worker, attempt), name_of(stream));
  route.piped = route.teed;
  route.shown = route.shown && route.teed;
  return route;
}

std::string attempt_folder(const std::string& run_folder, int attempt) {
  return fmt::format("{}/attempt_{}", run_folder, attempt);
}

std::string worker_folder(const std::string& run_folder, LocalRank worker, int attempt) {
  return fmt::format("{}/{}", attempt_folder(run_folder, attempt), worker.value());
}

std::string filtered_file(const std::string& run_folder, Stream stream, int attempt) {
  return fmt::format("{}/filtered_{}.log", attempt_folder(run_folder, attempt), name_of(stream));
}

std::string folder_name(std::string_view run_id) {
  constexpr std::size_t kBytesMax = 128;  // File names have at most 255; a random suffix follows.
  std::string name(cut_to_bytes(run_id, kBytesMax));
  for (char& byte : name) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '/' || code < 0x20 || code == 0x7F) byte = '_';
  }
  return name;
}

}  // namespace distrun
