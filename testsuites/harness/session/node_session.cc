#include "testsuites/harness/session/node_session.h"

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "launcher/nodes/make_nodes.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/caught_signals.h"
#include "launcher/process/guard_watch.h"
#include "launcher/process/leaked_processes.h"
#include "launcher/process/worker_process.h"
#include "testsuites/harness/nodes/node_agent.h"
#include "testsuites/harness/session/leaked_process_lines.h"
#include "testsuites/harness/session/session_nodes.h"

namespace distrun {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kLeftTimeout{30};

class NodeSession {
 public:
  NodeSession(const TestSessionOptions& options, const TestSessionContext& context)
      : options_(options), context_(context), place_(*options.nodes) {}

  Result<TestSessionEnd> run() {
    allow_many_descriptors();
    catch_signals();
    guard_.begin(context_.lifeline, [this] { io_.stop(); });
    join();
    io_.run();
    end_ranks(WasInterrupted::kYes);
    if (nodes_) nodes_->close();
    if (error_) return *error_;
    return TestSessionEnd{status_};
  }

 private:
  void join() {
    nodes_ = make_nodes(io_,
                        {.own = join_request_of(place_),
                         .node_0 = place_.address,
                         .join_timeout = place_.join_timeout},
                        {.on_order =
                             [this](const NodeOrder& order) {
                               std::visit([this](const auto& what) { take(what); }, order);
                             },
                         .on_renew_store = nullptr,
                         .on_error =
                             [this](const Error& error) {
                               error_ = error;
                               io_.stop();
                             },
                         .on_ranks = nullptr,
                         .on_operations = nullptr,
                         .on_flight = nullptr,
                         .on_text =
                             [this](int, const std::string& text) {
                               if (agent_) agent_->take(text);
                             },
                         .on_notice = [this](const std::string& text) { tell(text); }})
                 .nodes;
    nodes_->join();
  }

  void take(const StartNode& start) {
    attempt_ = start.attempt;
    const TestRunner::Options& its = options_.runner;
    agent_.emplace(
        io_,
        LocalNode::Options{
            .hosts = {.programs = its.programs,
                      .command = its.command,
                      .environment = its.environment,
                      .ready_timeout = its.host_timeout,
                      .losses_max = its.host_losses_max},
            .host = place_.host,
            .folder = its.folder,
            .variables = interface_variables(nodes_->own_address(), its.environment)},
        NodeAgent::Handlers{
            .node_0 = place_.address.host,
            .send = [this](std::string text) { nodes_->send_text(0, std::move(text)); },
            .on_end = [this] { asio::post(io_, [this] { tests_ended(); }); },
            .on_garbage =
                [this](const Error& error) { fail("node 0 is not usable: " + error.message); }});
  }

  // Node 0 needs no more ranks.
  void tests_ended() {
    const auto left = end_ranks(signal_ != 0 ? WasInterrupted::kYes : WasInterrupted::kNo);
    if (left.empty()) return nodes_->report(NodeSucceeded{attempt_});
    for (const std::string& line : left) tell(line);
    report_failure({.status = kExitTestFailed, .headline = left.front()});
  }

  void fail(const std::string& why) {
    if (has_failed_) return;
    tell(why);
    report_failure({.status = kExitInternal, .headline = why});
  }

  void report_failure(const NodesVerdict& verdict) {
    has_failed_ = true;
    nodes_->report(NodeFailed{.attempt = attempt_, .may_restart = false, .verdict = verdict});
  }

  // All nodes end, also if node 0 is lost.
  void take(const StopNode& stop) {
    for (const std::string& line : end_ranks(WasInterrupted::kYes)) tell(line);
    const NodesVerdict& verdict = stop.verdict;
    status_ = verdict.status;
    const bool is_about_this_node = verdict.node == place_.node && !has_failed_;
    if (!verdict.is_of_node_0 || is_about_this_node) tell(describe(verdict) + "; the tests ended");
    nodes_->report(NodeStopped{attempt_});
    leave();
  }

  void take(const FinishNode& finish) {
    end_ranks(WasInterrupted::kYes);
    status_ = finish.verdict.status;
    leave();
  }

  // The loop ends when all that was sent has arrived.
  void leave() {
    nodes_->close();
    signals_.end();
    guard_.end();
  }

  // Returns lines about processes that the ranks have left; none after the first call.
  std::vector<std::string> end_ranks(WasInterrupted interrupted) {
    if (!agent_) return {};
    agent_.reset();
    return lines_about(kill_leaked_processes(kLeftTimeout), interrupted);
  }

  void catch_signals() {
    std::vector<int> wanted = options_.end_signals;
    wanted.insert(wanted.end(), {SIGTSTP, SIGUSR1});
    signals_.begin(wanted, context_.lifeline.blocked);
  }

  // The first signal asks node 0 to end the tests; the second ends this node. Only node 0 shows
  // where ranks are, and a run on several nodes is not suspended.
  void take_signal(int signal) {
    if (signal == SIGUSR1 || signal == SIGTSTP) return;
    if (std::exchange(signal_, signal) != 0) return end_by_signal();
    if (agent_) return agent_->signaled(signal);
    report_failure({.status = 128 + signal,
                    .headline = "the tests ended by " + describe(KilledBy{signal}),
                    .signal = signal});
  }

  void end_by_signal() {
    status_ = 128 + signal_;
    io_.stop();
  }

  void tell(const std::string& line) const { context_.err("distrun test: " + line + "\n"); }

  const TestSessionOptions& options_;
  const TestSessionContext& context_;
  const TestNodes place_;
  asio::io_context io_;
  CaughtSignals signals_{io_, [this](int signal) { take_signal(signal); }};
  GuardWatch guard_{io_};
  std::unique_ptr<Nodes> nodes_;
  std::optional<NodeAgent> agent_;
  std::optional<Error> error_;
  bool has_failed_ = false;
  int attempt_ = 0, status_ = kExitInternal, signal_ = 0;
};

}  // namespace

Result<TestSessionEnd> run_node_session(const TestSessionOptions& options,
                                        const TestSessionContext& context) {
  return NodeSession(options, context).run();
}

}  // namespace distrun
