// For tests: another node of a run of tests, which is a process of this machine.
//
//     ForkedAgent agent(io, {.hosts = {.programs = {FAKE_TEST_HOST}, …}, .folder = folder});
//     agent.on_text = [&](const std::string& text) { node.take(text); };
//     agent.send(text);
//     agent.end();
//
// It forks in its constructor, and waits for the process in its destructor.
#pragma once

#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <sys/types.h>

#include "testsuites/harness/run/local_node.h"

namespace distrun::testing {

class ForkedAgent {
 public:
  ForkedAgent(boost::asio::io_context& io, const LocalNode::Options& options);
  ~ForkedAgent();
  ForkedAgent(const ForkedAgent&) = delete;
  ForkedAgent& operator=(const ForkedAgent&) = delete;

  void send(const std::string& text);
  // Its process and those of its ranks are gone when this returns.
  void end();

  std::function<void(const std::string& text)> on_text;
  std::function<void()> on_end;  // Nothing comes any more.

 private:
  void receive();

  boost::asio::local::stream_protocol::socket socket_;
  std::string received_;
  pid_t pid_ = -1;
};

}  // namespace distrun::testing
