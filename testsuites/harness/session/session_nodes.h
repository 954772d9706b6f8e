// SessionNodes connects a run of tests on node 0 to the other nodes of the run.
//
//     SessionNodes nodes(io, test_nodes, environment, handlers);
//     if (auto opened = nodes.join(); !opened) return opened.error();
//     …                                   // on_start:
//     nodes.add_to(runner_options);
//     …                                   // after the tests:
//     nodes.end(status);                  // on_end
//
// Threads: only the thread of `io`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "testsuites/harness/run/test_runner.h"
#include "testsuites/harness/session/test_nodes.h"

namespace distrun {

class SessionNodes {
 public:
  struct Handlers {
    std::function<void()> on_start;                    // All nodes have joined.
    std::function<void(const Error& error)> on_error;  // The tests cannot start.
    std::function<void(int signal)> on_signal;         // Another node got it.
    // "node 1 (gpu-1) is lost: …". Its ranks have failed, and no test can start any more.
    std::function<void(const std::string& text)> on_loss;
    // All nodes have ended. `status` is that of end(), unless another node has failed; `why` then
    // says why.
    std::function<void(int status, const std::string& why)> on_end;
    std::function<void(const std::string& text)> on_notice;
  };

  SessionNodes(boost::asio::io_context& io, const TestNodes& place, const Environment& environment,
               Handlers handlers);
  ~SessionNodes();
  SessionNodes(const SessionNodes&) = delete;
  SessionNodes& operator=(const SessionNodes&) = delete;

  // Fails if the port cannot be opened. Blocks up to ten seconds, to look up a name.
  Result<void> join();

  // REQUIRES: on_start was called. The nodes must outlive the runner.
  void add_to(TestRunner::Options& options);

  // The exit status of all nodes. A signal of a status above 128 is passed on.
  void end(int status);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
