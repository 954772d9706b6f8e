#include "testsuites/harness/nodes/node_agent.h"

#include <utility>
#include <variant>
#include <vector>

#include "testsuites/harness/protocol/test_list_json.h"

namespace distrun {

namespace {

RankReport::Kind kind_of(RankOutcome outcome) {
  switch (outcome) {
    case RankOutcome::kPassed:
      return RankReport::Kind::kPassed;
    case RankOutcome::kSkipped:
      return RankReport::Kind::kSkipped;
    case RankOutcome::kFailed:
      break;
  }
  return RankReport::Kind::kFailed;
}

}  // namespace

NodeAgent::NodeAgent(boost::asio::io_context& io, LocalNode::Options options, Handlers handlers)
    : handlers_(std::move(handlers)),
      programs_(options.hosts.programs.size()),
      node_(io, std::move(options), node_handlers()) {}

NodeAgent::~NodeAgent() {
  parts_.clear();
  node_.end_all();
}

TestNode::Handlers NodeAgent::node_handlers() {
  return {.on_ready =
              [this](std::size_t program) {
                send(HostReport{HostReport::Kind::kReady, program,
                                test_list_json(node_.tests_of(program))});
              },
          .on_lost =
              [this](std::size_t program, const std::string& text) {
                send(HostReport{HostReport::Kind::kLost, program, text});
              },
          .on_given_up =
              [this](std::size_t program) {
                send(HostReport{HostReport::Kind::kGivenUp, program, node_.given_up(program)});
              },
          .on_known = [this] { tell_reached(); }};
}

void NodeAgent::tell_reached() {
  for (auto& [key, its] : parts_) {
    if (its.has_told || !its.part || !its.part->has_reached_host()) continue;
    its.has_told = true;
    send(PartReport{PartReport::Kind::kReachedHost, key});
  }
}

PartHandlers NodeAgent::part_handlers(std::uint64_t key) {
  using Kind = RankReport::Kind;
  return {
      .on_noted =
          [this, key](int rank) {
            send(RankReport{Kind::kNoted, key, rank});
          },
      .on_over =
          [this, key](int rank, RankOutcome outcome) {
            send(RankReport{kind_of(outcome), key, rank});
          },
      .on_seen =
          [this, key](PartView view) {
            send(PartReport{PartReport::Kind::kSeen, key, std::move(view)});
          },
      .on_answered =
          [this, key](int rank) {
            send(RankReport{Kind::kAnswered, key, rank});
          },
      .on_looked =
          [this, key](PartView view) {
            send(PartReport{PartReport::Kind::kLooked, key, std::move(view)});
          },
      .on_collective =
          [this, key](int rank, const std::string& text) {
            send(RankReport{Kind::kCollective, key, rank, text});
          },
      .on_facts = [this, key](std::vector<RankFacts> facts) { send_facts(key, std::move(facts)); },
      .waits = nullptr};
}

void NodeAgent::signaled(int signal) { send(NodeSignaled{signal}); }

void NodeAgent::take(const std::string& text) {
  auto order = parse_test_order(text);
  if (!order) return handlers_.on_garbage(order.error());
  std::visit([this](auto& what) { take(what); }, *order);
}

void NodeAgent::take(const StartHosts&) {
  const auto started = node_.start_all();
  if (!started) send(HostReport{HostReport::Kind::kLost, 0, started.error().message});
}

void NodeAgent::take(const HostTask& task) {
  if (task.program >= programs_) {
    return handlers_.on_garbage({ErrorKind::kProtocol, "it has another number of test programs"});
  }
  switch (task.kind) {
    case HostTask::Kind::kReplace:
      return node_.replace(task.program);
    case HostTask::Kind::kEnd:
      return node_.end(task.program);
    case HostTask::Kind::kPassedATest:
      return node_.passed_a_test(task.program);
  }
}

void NodeAgent::take(BeginPart& begin) {
  PartOptions& options = begin.options;
  if (options.program >= programs_) {
    return handlers_.on_garbage({ErrorKind::kProtocol, "it has another number of test programs"});
  }
  const std::uint64_t key = options.first_key;
  Part& its = parts_[key] = {.part = nullptr, .first = options.first, .count = options.count};
  // The host was lost before node 0 could know.
  if (!node_.is_ready(options.program)) {
    for (int rank = options.first; rank < options.first + options.count; ++rank) {
      send(RankReport{RankReport::Kind::kFailed, key, rank});
    }
    return;
  }
  // A link-local address has another interface on each node.
  options.store_host = handlers_.node_0;
  its.part = node_.make_part(std::move(options), part_handlers(key));
  its.part->begin();
  tell_reached();
}

void NodeAgent::send_facts(std::uint64_t key, std::vector<RankFacts> facts) {
  int rank = parts_.at(key).first;
  for (RankFacts& one : facts) send(RankFactsTold{key, rank++, std::move(one)});
}

void NodeAgent::take(const PartOrder& order) {
  const auto found = parts_.find(order.key);
  if (found == parts_.end()) return;
  const bool finishes =
      order.kind == PartOrder::Kind::kFinish || order.kind == PartOrder::Kind::kInterrupt;
  if (order.kind == PartOrder::Kind::kDrop) {
    parts_.erase(found);
    return;
  }
  if (!found->second.part) {
    RankFacts lost;
    lost.host_lost = true;
    const auto ranks = static_cast<std::size_t>(found->second.count);
    if (finishes) send_facts(order.key, std::vector<RankFacts>(ranks, lost));
    return;
  }
  AttemptPart& part = *found->second.part;
  for (const int rank : order.ranks) {
    const int place = rank - found->second.first;
    if (place < 0 || place >= found->second.count) {
      return handlers_.on_garbage({ErrorKind::kProtocol, "it asks for ranks of other nodes"});
    }
  }
  switch (order.kind) {
    case PartOrder::Kind::kAsk:
      return part.ask(order.ranks);
    case PartOrder::Kind::kEnd:
      for (const int rank : order.ranks) part.end(rank);
      return;
    case PartOrder::Kind::kLook:
      return part.look();
    case PartOrder::Kind::kFinish:
      return part.finish(/*interrupted=*/false);
    case PartOrder::Kind::kInterrupt:
      return part.finish(/*interrupted=*/true);
    case PartOrder::Kind::kHostLost:
      return part.host_lost();
    case PartOrder::Kind::kDrop:
      return;  // See above.
  }
}

}  // namespace distrun
