// RemoteNode is another machine of a run of tests, as node 0 sees it (test_node.h). The other
// machine runs a NodeAgent.
//
//     RemoteNode node(io, {.name = "node 1 (gpu-1)", .host = "gpu-1", .programs = 2,
//                          .send = [&](std::string text) { nodes.send_text(1, text); }}, handlers);
//     node.take(text);                     // From the node: on_text of Nodes.
//     node.lose("node 1 (gpu-1): lost: it has been silent for 15 s");
//
// It checks the texts of the node before it believes them. Threads: only the thread of `io`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "testsuites/harness/nodes/remote_part.h"
#include "testsuites/harness/nodes/test_orders.h"
#include "testsuites/harness/run/test_node.h"

namespace distrun {

class RemoteNode : public TestNode {
 public:
  struct Options {
    std::string name, host;    // "node 1 (gpu-1)", "gpu-1"
    std::size_t programs = 1;  // Whose tests it runs, as node 0 does.
    std::function<void(std::string text)> send;
    // By how much its clock is ahead of this one's, as far as it is known.
    std::function<std::chrono::microseconds()> clock_ahead;
    std::function<void(int signal)> on_signal;           // The node got it, and the tests end.
    std::function<void(const Error& error)> on_garbage;  // It sends something else.
  };

  RemoteNode(boost::asio::io_context& io, Options options, Handlers handlers);

  void take(const std::string& text);
  // Nothing comes any more: the ranks on it have failed.
  void lose(const std::string& why);

  const std::string& host() const override { return options_.host; }
  Result<void> start_all() override;
  std::optional<std::vector<LoadedTest>> tests() const override;
  bool is_ready(std::size_t program) const override { return programs_[program].ready; }
  void replace(std::size_t program) override;
  const std::string& given_up(std::size_t program) const override {
    return programs_[program].given_up;
  }
  void passed_a_test(std::size_t program) override;
  void end(std::size_t program) override;
  void end_all() override;
  std::shared_ptr<AttemptPart> make_part(PartOptions options, PartHandlers handlers) override;

 private:
  struct Program {
    bool ready = false;
    std::string given_up;
    std::vector<TestInfo> tests;
  };

  void send(const TestOrder& order);
  std::shared_ptr<RemotePart> part_of(std::uint64_t key) const;
  void take(const HostReport& report);
  void take(const RankReport& report);
  void take(PartReport report);
  void take(RankFactsTold told);
  void take(const NodeSignaled& signaled) { options_.on_signal(signaled.signal); }

  boost::asio::io_context& io_;
  const Options options_;
  const Handlers handlers_;
  std::vector<Program> programs_;
  std::map<std::uint64_t, std::weak_ptr<RemotePart>> parts_;
  std::string lost_;  // Why; empty if it is not.
};

}  // namespace distrun
