// LocalPart is the ranks of an attempt on this machine (attempt_part.h): it asks a test host to
// fork them, and collects output, results, ends and leaked processes.
//
//     auto part = std::make_shared<LocalPart>(io, place, options, handlers);
//     part->begin();
//     …                                       // forked(), ended() …: the host's messages
//
// The host identifies ranks by keys, `first_key` plus the rank; the owner of the host passes on its
// messages about them. Threads: only the thread of `io`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/os/unique_fd.h"
#include "evidence/stacks/stack_collector.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/run/attempt_part.h"
#include "testsuites/harness/run/leaked_rank_processes.h"
#include "testsuites/harness/run/rank_process.h"
#include "testsuites/harness/run/test_host_process.h"

namespace distrun {

class LocalPart : public AttemptPart, public std::enable_shared_from_this<LocalPart> {
 public:
  // Shared by the parts on this machine; outlives them, except for `host`.
  struct Place {
    TestHostProcess* host;  // Null once it is lost.
    LeakedRankProcesses& leaked;
    StackCollector& stacks;
    std::string folder;  // Exists only during this attempt.
    std::string nonce;   // The run's; with the key it identifies processes.
    std::map<std::string, std::string> variables;  // More for each rank.
  };

  LocalPart(boost::asio::io_context& io, Place place, PartOptions options, PartHandlers handlers);
  ~LocalPart() override;

  void begin() override;
  void ask(const std::vector<int>& ranks) override;
  void end(int rank) override;
  void look() override;
  void finish(bool interrupted) override;
  bool has_reached_host() const override;
  void host_lost() override;
  bool has_lost_host() const override { return place_.host == nullptr; }
  void suspend() override;
  void continue_ranks() override;
  bool all_are_known() const override;

  // Messages from the host about its keys.
  bool has(std::uint64_t key) const;
  void forked(const RankForked& forked, UniqueFd pidfd);
  void not_forked(const RankNotForked& not_forked);
  void ended(const RankEnded& ended);

 private:
  RankProcess& at(int rank) const {
    return *ranks_[static_cast<std::size_t>(rank - options_.first)];
  }
  int rank_of(std::uint64_t key) const { return static_cast<int>(key - options_.first_key); }
  std::uint64_t key_of(int rank) const {
    return options_.first_key + static_cast<std::uint64_t>(rank);
  }
  std::vector<int> all_ranks() const;
  Result<void> start(int rank);
  std::string mark(int rank) const;
  RankProcess::EndLeaked end_leaked(int rank);
  void rank_over(int rank);
  void signal_ranks(int signal);
  RankFacts judged(RankFacts facts) const;
  std::vector<RankStacks> stacks_of(const std::vector<int>& wanted);
  PartView view_of(const std::vector<int>& wanted);
  bool host_is_silent() const;
  void give_facts();
  void name_functions(RankFacts& rank);

  boost::asio::io_context& io_;
  Place place_;
  bool reached_lost_host_ = false;  // has_reached_host() then.
  const PartOptions options_;
  const PartHandlers handlers_;
  std::vector<std::shared_ptr<RankProcess>> ranks_;
  bool waits_for_loss_ = false, is_over_ = false, is_suspended_ = false;
};

}  // namespace distrun
