#include "launcher/nodes/nodes_coordinator.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/printable.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace {

std::string flag_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g}", std::chrono::duration<double>(time).count());
}

std::string hang_after_text(std::chrono::milliseconds limit) {
  return limit.count() == 0 ? "no --hang-after" : "--hang-after " + flag_seconds(limit);
}

std::string records_text(const std::string& flag) {
  return flag.empty() ? "no --digest" : printable(flag, 80);
}

}  // namespace

NodesCoordinator::NodesCoordinator(const Options& options, TimePoint now)
    : options_(options),
      nodes_(static_cast<std::size_t>(options.nodes)),
      deadline_(now + options.join_timeout) {}

NodeActions NodesCoordinator::step(const NodeEvent& event, TimePoint now) {
  std::visit([&](const auto& happened) { handle(happened, now); }, event);
  return std::exchange(actions_, {});
}

void NodesCoordinator::handle(const NodeAsked& event, TimePoint) {
  const std::string reason = reason_to_refuse(event.request);
  if (!reason.empty()) {
    actions_.push_back(RefuseNode{event.peer, reason});
    return;
  }
  Node& node = nodes_[static_cast<std::size_t>(event.request.node)];
  node = {State::kHere, event.peer, event.request};
  actions_.push_back(AcceptNode{event.peer, event.request.node});
  if (all({State::kHere})) begin_attempt();
}

std::string NodesCoordinator::reason_to_refuse(const JoinRequest& request) const {
  if (request.protocol != kNodeProtocol) {
    return fmt::format(
        "it has version {} of the node protocol, but node 0 has version {}: every node needs the "
        "same distrun",
        request.protocol, kNodeProtocol);
  }
  if (request.command != options_.command) {
    return fmt::format("it runs {}, node 0 runs {}: run the same command on every node",
                       printable(request.command, 80), options_.command);
  }
  if (request.run_id != options_.run_id) {
    return fmt::format("it has --rdzv-id '{}', node 0 has '{}': another run uses this port",
                       request.run_id, options_.run_id);
  }
  if (request.nodes != options_.nodes) {
    return fmt::format("it has --nnodes {}, node 0 has {}", request.nodes, options_.nodes);
  }
  if (request.node < 0 || request.node >= options_.nodes) {
    return fmt::format("it has --node-rank {}, which is not between 0 and {} (--nnodes {})",
                       request.node, options_.nodes - 1, options_.nodes);
  }
  if (request.max_restarts != options_.max_restarts) {
    return fmt::format("it has --max-restarts {}, node 0 has {}", request.max_restarts,
                       options_.max_restarts);
  }
  if (request.hang_after_ms != options_.hang_after.count()) {
    return fmt::format("it has {}, node 0 has {}",
                       hang_after_text(std::chrono::milliseconds(request.hang_after_ms)),
                       hang_after_text(options_.hang_after));
  }
  if (request.heartbeat_ms != options_.heartbeat.count()) {
    return fmt::format("it has --heartbeat {}, node 0 has {}",
                       flag_seconds(std::chrono::milliseconds(request.heartbeat_ms)),
                       flag_seconds(options_.heartbeat));
  }
  if (request.records != options_.records) {
    return fmt::format("it has {}, node 0 has {}", records_text(request.records),
                       records_text(options_.records));
  }
  const bool ends = phase_ == Phase::kStopping && !restarts_;
  if (ends || phase_ == Phase::kFinished) return "the run is ending";
  const Node& node = nodes_[static_cast<std::size_t>(request.node)];
  if (node.state != State::kMissing) {
    return fmt::format("--node-rank {} is taken: {} has it", request.node, node.request.host);
  }
  return "";
}

void NodesCoordinator::begin_attempt() {
  phase_ = Phase::kRunning;
  deadline_.reset();
  no_hang_before_.reset();
  const std::vector<RanksOfNode> placed = ranks();
  const int world_size = placed.back().first + placed.back().count;
  std::map<std::string, int> role_sizes, role_bases;
  for (const RanksOfNode& node : placed) role_sizes[node.role] += node.count;
  if (attempt_ > 0) actions_.push_back(RenewStore{attempt_});
  for (Node& node : nodes_) {
    const std::string& role = node.request.role;
    node.state = State::kRunning;
    node.is_quiet = false;
    const int rank_base = placed[static_cast<std::size_t>(number(node))].first;
    order(node, StartNode{attempt_, rank_base, world_size, role_bases[role], role_sizes[role]});
    role_bases[role] += node.request.workers;
  }
}

std::vector<RanksOfNode> NodesCoordinator::ranks() const {
  std::vector<RanksOfNode> all;
  int first = 0;
  for (const Node& node : nodes_) {
    const JoinRequest& its = node.request;
    all.push_back({number(node), its.host, its.role, first, its.workers});
    first += its.workers;
  }
  return all;
}

void NodesCoordinator::handle(const NodeReported& event, TimePoint now) {
  Node* node = find(event.peer);
  if (node == nullptr || phase_ == Phase::kFinished) return;
  std::visit(
      [&](const auto& report) {
        if (report.attempt == attempt_) handle(*node, report, now);
      },
      event.report);
}

void NodesCoordinator::handle(Node& node, const NodeFailed& report, TimePoint now) {
  NodesVerdict verdict = report.verdict;
  verdict.node = number(node);
  verdict.host = node.request.host;
  // A user who ends a run while it restarts does not want another attempt.
  const bool overrides = phase_ == Phase::kStopping && restarts_ && !report.may_restart;
  if (phase_ == Phase::kStopping && !overrides) return;
  stop(verdict, report.may_restart, now);
}

void NodesCoordinator::handle(Node& node, const NodeQuiet& report, TimePoint now) {
  node.is_quiet = report.is_quiet;
  stop_if_all_are_quiet(now);
}

void NodesCoordinator::stop_if_all_are_quiet(TimePoint now) {
  if (phase_ != Phase::kRunning) return;
  const bool all_quiet = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.state != State::kRunning || node.is_quiet;
  });
  deadline_.reset();
  if (!all_quiet || all({State::kSucceeded, State::kLost})) return;
  if (no_hang_before_ && now < *no_hang_before_) {
    deadline_ = no_hang_before_;
    return;
  }
  stop({.status = kExitHung, .headline = no_progress_text(options_.hang_after, " on any node")},
       /*may_restart=*/true, now);
}

void NodesCoordinator::handle(Node& node, const NodeSucceeded&, TimePoint now) {
  if (node.state != State::kRunning) return;
  node.state = State::kSucceeded;
  if (phase_ == Phase::kStopping) {  // StopNode is on its way, and covers this report too.
    return;
  }
  // A node whose workers have succeeded counts as progress.
  no_hang_before_ = now + options_.hang_after;
  stop_if_all_have_succeeded();
  stop_if_all_are_quiet(now);
}

void NodesCoordinator::stop_if_all_have_succeeded() {
  if (phase_ != Phase::kRunning || !all({State::kSucceeded, State::kLost})) return;
  verdict_ = {};
  finish();
}

void NodesCoordinator::handle(Node& node, const NodeStopped&, TimePoint) {
  if (phase_ != Phase::kStopping || !is_there(node)) return;
  node.state = State::kStopped;
  go_on_if_all_have_stopped();
}

void NodesCoordinator::handle(const NodeLost& event, TimePoint now) {
  Node* node = find(event.peer);
  if (node == nullptr) return;
  const State before = node->state;
  if (phase_ == Phase::kJoining) {  // It may join again.
    *node = {};
    return;
  }
  node->state = State::kLost;
  if (phase_ == Phase::kRunning) {
    if (before == State::kSucceeded) return stop_if_all_have_succeeded();
    const Node& blamed = event.is_by_node_0 ? nodes_.front() : *node;
    return stop({.status = kExitInternal,
                 .node = number(blamed),
                 .host = blamed.request.host,
                 .headline = "lost: " + event.reason,
                 .is_of_node_0 = !event.is_by_node_0},
                /*may_restart=*/false, now);
  }
  if (phase_ != Phase::kStopping) return;
  // A node whose workers have ended may disconnect, unless another attempt needs it.
  if (restarts_ || before != State::kStopped) note(*node, "is lost too: " + event.reason);
  if (std::exchange(restarts_, false)) send_stop();
  go_on_if_all_have_stopped();
}

void NodesCoordinator::handle(const TorchrunCame& event, TimePoint now) {
  if (phase_ != Phase::kJoining) return;
  stop({.status = kExitInternal,
        .headline = fmt::format("a node at {} runs torchrun; start {} on every node", event.address,
                                options_.command)},
       /*may_restart=*/false, now);
}

void NodesCoordinator::handle(const NodesTick&, TimePoint now) {
  if (!deadline_ || now < *deadline_) return;
  if (phase_ == Phase::kJoining) {
    const auto limit = std::chrono::duration<double>(options_.join_timeout).count();
    return stop({.status = kExitInternal,
                 .node = 0,
                 .host = nodes_.front().request.host,
                 .headline = fmt::format("{} did not join within {:g} s; {}", absent_nodes(), limit,
                                         present_nodes())},
                /*may_restart=*/false, now);
  }
  if (phase_ == Phase::kRunning) return stop_if_all_are_quiet(now);
  if (phase_ != Phase::kStopping) return;
  for (const Node& node : nodes_) {
    if (is_there(node) && node.state != State::kStopped) {
      note(node, "did not report that its workers ended");
    }
  }
  finish();
}

void NodesCoordinator::stop(const NodesVerdict& verdict, bool may_restart, TimePoint now) {
  phase_ = Phase::kStopping;
  verdict_ = verdict;
  deadline_ = now + options_.stop_timeout;
  restarts_ = may_restart && attempt_ < options_.max_restarts &&
              std::all_of(nodes_.begin(), nodes_.end(),
                          [this](const Node& node) { return is_there(node); });
  send_stop();
  go_on_if_all_have_stopped();
}

void NodesCoordinator::send_stop() {
  for (const Node& node : nodes_) {
    if (is_there(node)) order(node, StopNode{attempt_, !restarts_, verdict_});
  }
}

void NodesCoordinator::go_on_if_all_have_stopped() {
  if (!all({State::kStopped, State::kLost, State::kMissing})) return;
  if (!restarts_) return finish();
  restarts_ = false;
  ++attempt_;
  begin_attempt();
}

void NodesCoordinator::finish() {
  phase_ = Phase::kFinished;
  deadline_.reset();
  for (const Node& node : nodes_) {
    if (is_there(node)) order(node, FinishNode{verdict_});
  }
}

void NodesCoordinator::order(const Node& node, NodeOrder order) {
  actions_.push_back(OrderNode{number(node), std::move(order)});
}

void NodesCoordinator::note(const Node& node, const std::string& text) {
  verdict_.notes += fmt::format("  {} {}\n", name(node), text);
}

std::string NodesCoordinator::name(const Node& node) const {
  return fmt::format("node {} ({})", number(node), node.request.host);
}

std::string NodesCoordinator::absent_nodes() const {
  std::vector<int> absent;
  for (const Node& node : nodes_) {
    if (node.state == State::kMissing) absent.push_back(number(node));
  }
  if (absent.empty()) return "";
  return fmt::format("node{} {}", absent.size() == 1 ? "" : "s", fmt::join(absent, ", "));
}

std::string NodesCoordinator::present_nodes() const {
  std::vector<std::string> present;
  for (const Node& node : nodes_) {
    if (node.state != State::kMissing) present.push_back(name(node));
  }
  if (present.empty()) return "no node has joined";
  return fmt::format("only {} {} joined", fmt::join(present, ", "),
                     present.size() == 1 ? "has" : "have");
}

std::string NodesCoordinator::missing() const {
  const std::string absent = absent_nodes();
  return absent.empty() ? "" : absent + "; " + present_nodes();
}

std::string NodesCoordinator::awaited() const {
  if (phase_ != Phase::kStopping) return missing();
  std::vector<std::string> names;
  for (const Node& node : nodes_) {
    if (is_there(node) && node.state != State::kStopped) names.push_back(name(node));
  }
  if (names.empty()) return "";
  return fmt::format("{} to end {} workers", fmt::join(names, ", "),
                     names.size() == 1 ? "its" : "their");
}

bool NodesCoordinator::all(std::initializer_list<State> states) const {
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return std::find(states.begin(), states.end(), node.state) != states.end();
  });
}

bool NodesCoordinator::is_there(const Node& node) const {
  return node.state != State::kMissing && node.state != State::kLost;
}

NodesCoordinator::Node* NodesCoordinator::find(NodePeer peer) {
  for (Node& node : nodes_) {
    if (is_there(node) && node.peer == peer) return &node;
  }
  return nullptr;
}

}  // namespace distrun
