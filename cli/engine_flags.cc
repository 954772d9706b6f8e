#include "cli/engine_flags.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/os/socket_peer.h"
#include "common/os/whole_file.h"
#include "launcher/plan/rendezvous.h"

namespace distrun {

namespace {

std::optional<int> process_at(int descriptor) {
  const auto its = socket_peer(descriptor);
  return its && its->pid > 0 ? std::optional<int>(its->pid) : std::nullopt;
}

std::optional<std::string> small_file(const std::string& path) {
  constexpr std::size_t kBytesMax = std::size_t{16} << 20;
  auto text = read_whole_file(path, kBytesMax);
  return text ? std::move(*text) : std::nullopt;
}

GivenPlace given_place(const CommandLine& line) {
  const auto flag = [&](std::string_view name) -> std::optional<GivenPlace::Flag> {
    const GivenFlag* given = line.find(name);
    if (given == nullptr) return std::nullopt;
    return GivenPlace::Flag{given->said, given->value};
  };
  // torchrun's form of a fixed number, "2:2", is 2.
  const auto count = [&]() -> std::optional<GivenPlace::Flag> {
    auto nodes = flag("nnodes");
    if (!nodes) return nodes;
    const std::size_t colon = nodes->value.find(':');
    const std::string min = nodes->value.substr(0, colon);
    if (colon != std::string::npos && nodes->value.substr(colon + 1) == min) nodes->value = min;
    return nodes;
  };
  const auto loopback = [&]() -> std::optional<GivenPlace::Flag> {
    auto address = flag("rdzv-endpoint");
    if (!address || address->value.empty()) address = flag("master-addr");
    if (!address) return std::nullopt;
    const auto endpoint = parse_endpoint(address->value);
    return endpoint && is_loopback(endpoint->host) ? address : std::nullopt;
  };
  const auto has = [&](std::string_view name) { return line.find(name) != nullptr; };
  return {.nodes = count(),
          .node = flag("node-rank"),
          .workers = flag("nproc-per-node"),
          .has_address = has("master-addr") || has("rdzv-endpoint"),
          .has_port = has("master-port") || has("rdzv-endpoint"),
          .has_id = has("rdzv-id"),
          .loopback = loopback(),
          .is_alone = has("standalone")};
}

}  // namespace

std::string file_of_task(const std::string& path, int task) {
  std::error_code unknown;
  const auto status = std::filesystem::status(path, unknown);
  const bool is_special = std::filesystem::exists(status) && !is_regular_file(status);
  if (path.empty() || task == 0 || is_special) return path;
  const std::filesystem::path whole(path);
  const std::string name =
      whole.stem().string() + "-" + std::to_string(task) + whole.extension().string();
  return (whole.parent_path() / name).string();
}

PlacedByEngine place_by_engine(CommandLine& line, const Environment& environment,
                               TasksOfNode tasks) {
  PlacedByEngine placed;
  GivenPlace given = given_place(line);
  given.tasks_of_node = tasks;
  if (!environment.get("TORCHELASTIC_RUN_ID").value_or("").empty()) {
    placed.place.reason = "this process is a worker of a run (TORCHELASTIC_RUN_ID)";
  } else {
    placed.place.reason = reason_to_ignore_engine(given);
  }
  auto facts = engine_facts(environment, {.process_at = process_at, .text_of = small_file});
  if (!placed.place.reason.empty()) {
    if (facts) placed.facts = std::move(*facts);
    return placed;
  }
  if (!facts) {
    placed.error = facts.error();
    return placed;
  }
  placed.facts = std::move(*facts);
  if (!placed.facts) return placed;
  auto place = place_of(*placed.facts, given);
  if (!place) {
    placed.error = place.error();
    placed.tells_error = tells_error(*placed.facts);
    return placed;
  }
  for (const EngineFlag& flag : place->flags) line.flags[flag.name] = {flag.value, flag.source};
  placed.place = std::move(*place);
  return placed;
}

}  // namespace distrun
