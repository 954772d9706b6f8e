#include "testsuites/harness/session/session_nodes.h"

#include <chrono>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "distrun/store_server.h"
#include "launcher/nodes/listen_address.h"
#include "launcher/nodes/make_nodes.h"
#include "launcher/outcome/run_end.h"
#include "store/server/store_server_internals.h"
#include "testsuites/harness/nodes/remote_node.h"

namespace distrun {

namespace {

constexpr std::chrono::seconds kLookUpTimeout{10};
// For the other nodes to end their ranks.
constexpr std::chrono::seconds kStopPatience{10}, kStopTimeout{60};

constexpr int kAttempt = 0;  // Of the nodes: there is only one.

Error with_remedy(Error error, const TestNodes& place) {
  if (error.kind == ErrorKind::kAddressNotLocal) {
    error.message = place.address_flag + ' ' + error.message;
  } else if (error.kind == ErrorKind::kAddressInUse) {
    error.message += "; give another --master-port, the same on every node";
  }
  return error;
}

}  // namespace

struct SessionNodes::Impl {
  Impl(boost::asio::io_context& loop, const TestNodes& where, const Environment& given, Handlers to)
      : io(loop), place(where), environment(given), handlers(std::move(to)) {}

  boost::asio::io_context& io;
  const TestNodes place;
  const Environment environment;
  const Handlers handlers;
  MadeNodes made;
  std::unique_ptr<StoreServer> server;  // Where the nodes join.
  std::string listens_at;
  std::vector<RanksOfNode> all;        // By number.
  std::map<int, RemoteNode*> remotes;  // By number.
  std::string why_stopped;             // If not by end().
  std::string turned_out;              // A node, and why; empty if none was.
  bool has_started = false, has_ended = false;

  Result<void> join() {
    auto host = listen_address(place.address_flag, place.address.host, kLookUpTimeout);
    if (!host) return host.error();
    listens_at = std::move(*host);
    made = make_nodes(io,
                      {.own = join_request_of(place),
                       .node_0 = place.address,
                       .join_timeout = place.join_timeout,
                       .stop_patience = kStopPatience,
                       .stop_timeout = kStopTimeout},
                      {.on_order =
                           [this](const NodeOrder& order) {
                             std::visit([this](const auto& what) { take(what); }, order);
                           },
                       .on_renew_store = nullptr,
                       .on_error = [this](const Error& error) { handlers.on_error(error); },
                       .on_ranks = [this](const std::vector<RanksOfNode>& nodes) { all = nodes; },
                       .on_operations = nullptr,
                       .on_flight = nullptr,
                       .on_text =
                           [this](int node, const std::string& text) {
                             const auto remote = remotes.find(node);
                             if (remote != remotes.end()) remote->second->take(text);
                           },
                       .on_notice = [this](const std::string& text) { handlers.on_notice(text); }});
    auto opened = StoreServerInternals::listen(io, {.host = listens_at, .port = place.address.port},
                                               made.take, made.check_key);
    if (!opened) return with_remedy(opened.error(), place);
    server = std::move(*opened);
    made.nodes->join();
    return {};
  }

  void take(const StartNode&) {
    has_started = true;
    if (!has_ended) handlers.on_start();
  }

  // Of all nodes, because another one has failed or is lost, or because of end().
  void take(const StopNode& stop) {
    if (!has_ended) why_stopped = describe(stop.verdict);
    if (has_ended || !has_started) return made.nodes->report(NodeStopped{kAttempt});
    for (const auto& [node, remote] : remotes) remote->lose(why_stopped);
    handlers.on_loss(why_stopped);
  }

  void take(const FinishNode& finish) {
    const NodesVerdict& verdict = finish.verdict;
    // After end(), another node may have failed.
    if (why_stopped.empty() && verdict.node != 0) why_stopped = describe(verdict);
    handlers.on_end(verdict.status, why_stopped);
  }

  void add_to(TestRunner::Options& options) {
    options.host = place.host;
    options.store_host = listens_at;
    options.store_address = place.address.host;
    options.variables = interface_variables(made.nodes->own_address(), environment);
    for (const RanksOfNode& node : all) {
      if (node.node == 0) continue;
      options.more_nodes.push_back([this, node, programs = options.programs.size()](
                                       boost::asio::io_context&, TestNode::Handlers its) {
        return make_remote(node, programs, std::move(its));
      });
    }
  }

  std::unique_ptr<TestNode> make_remote(const RanksOfNode& node, std::size_t programs,
                                        TestNode::Handlers its) {
    const std::string name = fmt::format("node {} ({})", node.node, node.host);
    auto remote = std::make_unique<RemoteNode>(
        io,
        RemoteNode::Options{
            .name = name,
            .host = node.host,
            .programs = programs,
            .send = [this, number = node.node](
                        std::string text) { made.nodes->send_text(number, std::move(text)); },
            .clock_ahead =
                [this, number = node.node] {
                  return std::chrono::duration_cast<std::chrono::microseconds>(
                      made.nodes->clock_ahead(number));
                },
            .on_signal = [this](int signal) { handlers.on_signal(signal); },
            .on_garbage = [this, number = node.node](
                              const Error& error) { turn_out(number, error.message); }},
        std::move(its));
    remotes[node.node] = remote.get();
    return remote;
  }

  // It sends something else than a node of these tests.
  void turn_out(int number, const std::string& reason) {
    turned_out = fmt::format("node {}: {}", number, reason);
    remotes.at(number)->lose(turned_out);
    handlers.on_loss(turned_out);
  }

  void end(int status) {
    remotes.clear();  // The runner has ended.
    if (std::exchange(has_ended, true)) return;
    if (!why_stopped.empty()) return made.nodes->report(NodeStopped{kAttempt});
    if (!turned_out.empty()) {
      status = kExitInternal;
      why_stopped = turned_out;
    }
    if (status == 0 && has_started) return made.nodes->report(NodeSucceeded{kAttempt});
    NodeFailed failed{.attempt = kAttempt};
    failed.verdict.status = status;
    failed.verdict.headline = "the tests ended with status " + std::to_string(status);
    if (status > 128) failed.verdict.signal = status - 128;
    made.nodes->report(failed);
    made.nodes->report(NodeStopped{kAttempt});
  }
};

SessionNodes::SessionNodes(boost::asio::io_context& io, const TestNodes& place,
                           const Environment& environment, Handlers handlers)
    : impl_(std::make_unique<Impl>(io, place, environment, std::move(handlers))) {}

SessionNodes::~SessionNodes() {
  if (impl_->made.nodes) impl_->made.nodes->close();
}

Result<void> SessionNodes::join() { return impl_->join(); }
void SessionNodes::add_to(TestRunner::Options& options) { impl_->add_to(options); }
void SessionNodes::end(int status) { impl_->end(status); }

}  // namespace distrun
