// TestNode is a machine that runs ranks of tests: a test host for each program, and the parts of
// attempts that are on it. LocalNode is this machine; RemoteNode is another one.
//
//     auto started = node.start_all();          // on_ready for each program
//     auto part = node.make_part(options, part_handlers);
//     …                                         // after on_lost has returned:
//     node.replace(program);                    // on_ready or on_given_up
//
// The owner decides what a lost host means for its tests. Threads: only the thread of the event
// loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distrun/result.h"
#include "testsuites/harness/run/attempt_part.h"
#include "testsuites/harness/run/planned_test.h"

namespace distrun {

class TestNode {
 public:
  struct Handlers {
    std::function<void(std::size_t program)> on_ready;
    // "the test program build/my_tests failed: …"
    std::function<void(std::size_t program, const std::string& text)> on_lost;
    // The host cannot be restarted, or was lost too often; given_up() says why.
    std::function<void(std::size_t program)> on_given_up;
    std::function<void()> on_known;  // A rank runs now, or could not be started.
  };

  virtual ~TestNode() = default;

  virtual const std::string& host() const = 0;  // Its name.

  virtual Result<void> start_all() = 0;
  // The tests of all programs, in order; nullopt until all hosts are ready.
  virtual std::optional<std::vector<LoadedTest>> tests() const = 0;

  virtual bool is_ready(std::size_t program) const = 0;
  virtual void replace(std::size_t program) = 0;
  // Why the host is not restarted; empty if it may be.
  virtual const std::string& given_up(std::size_t program) const = 0;
  virtual void passed_a_test(std::size_t program) = 0;
  virtual void end(std::size_t program) = 0;
  virtual void end_all() = 0;

  // REQUIRES: is_ready(options.program). The node must outlive the part.
  virtual std::shared_ptr<AttemptPart> make_part(PartOptions options, PartHandlers handlers) = 0;
};

}  // namespace distrun
