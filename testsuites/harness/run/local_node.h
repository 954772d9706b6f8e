// LocalNode is this machine as a TestNode.
//
//     LocalNode node(io, {.hosts = {.programs = {"build/distrun-suites"}, …}, …}, handlers);
//
// It reaps the children that leaked processes leave to this process. Threads: only the thread of
// `io`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "evidence/stacks/stack_collector.h"
#include "launcher/process/child_reaper.h"
#include "testsuites/harness/run/host_pool.h"
#include "testsuites/harness/run/leaked_rank_processes.h"
#include "testsuites/harness/run/local_part.h"
#include "testsuites/harness/run/test_node.h"

namespace distrun {

class LocalNode : public TestNode {
 public:
  struct Options {
    HostPool::Options hosts;
    std::string host;                                   // This machine's name.
    std::string folder;                                 // For temporary files.
    std::map<std::string, std::string> variables = {};  // More for each rank.
  };

  LocalNode(boost::asio::io_context& io, Options options, Handlers handlers);
  ~LocalNode() override;
  LocalNode(const LocalNode&) = delete;
  LocalNode& operator=(const LocalNode&) = delete;

  const std::string& host() const override { return host_; }

  // REQUIRES: is_ready(program).
  const std::vector<TestInfo>& tests_of(std::size_t program) const {
    return hosts_.tests_of(program);
  }

  Result<void> start_all() override { return hosts_.start_all(); }
  std::optional<std::vector<LoadedTest>> tests() const override { return hosts_.tests(); }
  bool is_ready(std::size_t program) const override { return hosts_.is_ready(program); }
  void replace(std::size_t program) override;
  const std::string& given_up(std::size_t program) const override {
    return hosts_.given_up(program);
  }
  void passed_a_test(std::size_t program) override { hosts_.passed_a_test(program); }
  void end(std::size_t program) override { hosts_.end(program); }
  void end_all() override;
  std::shared_ptr<AttemptPart> make_part(PartOptions options, PartHandlers handlers) override;

 private:
  HostPool::Handlers host_handlers();
  std::shared_ptr<LocalPart> part_of(std::uint64_t key) const;

  boost::asio::io_context& io_;
  const std::string host_, folder_;
  const Handlers handlers_;
  const std::map<std::string, std::string> variables_;
  LeakedRankProcesses leaked_;
  StackCollector stacks_;
  HostPool hosts_;
  ChildReaper reaper_;
  std::map<std::uint64_t, std::weak_ptr<LocalPart>> parts_;  // By the first key of the attempt.
};

}  // namespace distrun
