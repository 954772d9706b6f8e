#include "testsuites/harness/run/local_node.h"

#include <utility>

#include <fmt/format.h>

#include "testsuites/harness/run/rank_place.h"

namespace distrun {

LocalNode::LocalNode(boost::asio::io_context& io, Options options, Handlers handlers)
    : io_(io),
      host_(std::move(options.host)),
      folder_(std::move(options.folder)),
      handlers_(std::move(handlers)),
      variables_(std::move(options.variables)),
      hosts_(io, std::move(options.hosts), host_handlers()),
      reaper_(io, [this](pid_t child) { return hosts_.has(child); }) {
  reaper_.begin();
}

LocalNode::~LocalNode() {
  reaper_.end();
  hosts_.end_all();
}

void LocalNode::end_all() {
  reaper_.end();
  hosts_.end_all();
}

HostPool::Handlers LocalNode::host_handlers() {
  return {.on_ready = [this](std::size_t program) { handlers_.on_ready(program); },
          .on_forked =
              [this](const RankForked& forked, UniqueFd pidfd) {
                if (const auto part = part_of(forked.key)) part->forked(forked, std::move(pidfd));
                handlers_.on_known();
              },
          .on_not_forked =
              [this](const RankNotForked& not_forked) {
                if (const auto part = part_of(not_forked.key)) part->not_forked(not_forked);
                handlers_.on_known();
              },
          .on_ended =
              [this](const RankEnded& rank) {
                if (const auto part = part_of(rank.key)) part->ended(rank);
              },
          .on_lost =
              [this](std::size_t program, const std::string& text) {
                // The host may have crashed.
                handlers_.on_lost(program, with_named_backtraces(text, stacks_.names()));
              }};
}

void LocalNode::replace(std::size_t program) {
  if (!hosts_.replace(program)) handlers_.on_given_up(program);
}

std::shared_ptr<LocalPart> LocalNode::part_of(std::uint64_t key) const {
  auto next = parts_.upper_bound(key);
  if (next == parts_.begin()) return nullptr;
  const auto part = std::prev(next)->second.lock();
  return part && part->has(key) ? part : nullptr;
}

std::shared_ptr<AttemptPart> LocalNode::make_part(PartOptions options, PartHandlers handlers) {
  std::erase_if(parts_, [](const auto& one) { return one.second.expired(); });
  const std::uint64_t key = options.first_key;
  LocalPart::Place place{.host = &hosts_.process(options.program),
                         .leaked = leaked_,
                         .stacks = stacks_,
                         .folder = fmt::format("{}/{}", folder_, key),
                         .nonce = folder_.substr(folder_.rfind('/') + 1),
                         .variables = variables_};
  auto part =
      std::make_shared<LocalPart>(io_, std::move(place), std::move(options), std::move(handlers));
  parts_[key] = part;
  return part;
}

}  // namespace distrun
