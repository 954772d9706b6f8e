// NodeAgent runs the ranks of tests on this machine for node 0, which has a RemoteNode.
//
//     NodeAgent agent(io, {.hosts = …, .folder = …}, {.send = …, .on_end = …, .on_garbage = …});
//     agent.take(text);                      // From node 0.
//
// Threads: only the thread of `io`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "testsuites/harness/nodes/test_orders.h"
#include "testsuites/harness/run/local_node.h"

namespace distrun {

class NodeAgent {
 public:
  struct Handlers {
    std::string node_0;                          // Its address, where ranks find their store.
    std::function<void(std::string text)> send;  // To node 0.
    std::function<void()> on_end;                // Node 0 needs no more ranks.
    std::function<void(const Error& error)> on_garbage;  // Node 0 sends something else.
  };

  NodeAgent(boost::asio::io_context& io, LocalNode::Options options, Handlers handlers);
  ~NodeAgent();
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  void take(const std::string& text);
  // The user or an engine ends the tests.
  void signaled(int signal);

 private:
  struct Part {
    std::shared_ptr<AttemptPart> part;  // Null if its test host was lost before.
    int first = 0, count = 1;           // Its ranks.
    bool has_told = false;              // kReachedHost.
  };

  TestNode::Handlers node_handlers();
  PartHandlers part_handlers(std::uint64_t key);
  void send(const TestReport& report) { handlers_.send(to_text(report)); }
  void take(const StartHosts&);
  void take(const HostTask& task);
  void take(BeginPart& begin);
  void take(const PartOrder& order);
  void take(const EndTests&) { handlers_.on_end(); }
  void tell_reached();
  void send_facts(std::uint64_t key, std::vector<RankFacts> facts);

  const Handlers handlers_;
  const std::size_t programs_;
  LocalNode node_;
  std::map<std::uint64_t, Part> parts_;  // By the key of rank 0.
};

}  // namespace distrun
