// RemotePart is the ranks of an attempt on another node (attempt_part.h): it sends orders there,
// and passes on the node's reports. RemoteNode makes it.
//
// Threads: only the thread of the event loop.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "testsuites/harness/nodes/test_orders.h"
#include "testsuites/harness/run/attempt_part.h"

namespace distrun {

class RemotePart : public AttemptPart, public std::enable_shared_from_this<RemotePart> {
 public:
  using Send = std::function<void(const TestOrder& order)>;

  RemotePart(boost::asio::io_context& io, PartOptions options, PartHandlers handlers, Send send)
      : io_(io),
        options_(std::move(options)),
        handlers_(std::move(handlers)),
        send_(std::move(send)) {}
  ~RemotePart() override;

  void begin() override;
  void ask(const std::vector<int>& ranks) override;
  void end(int rank) override;
  void look() override;
  void finish(bool interrupted) override;
  bool has_reached_host() const override { return has_reached_host_; }
  void host_lost() override;
  bool has_lost_host() const override { return has_lost_host_; }
  // A run on several nodes is never suspended.
  void suspend() override {}
  void continue_ranks() override {}
  bool all_are_known() const override { return true; }

  // The node's reports. One about ranks of others is ignored.
  void take(const RankReport& report);
  void take(PartReport report);
  // `clock_ahead`: by how much the node's clock is ahead of this one's.
  void take(RankFactsTold told, std::chrono::microseconds clock_ahead);
  // Nothing comes from the node any more: its ranks have failed.
  void node_lost(const std::string& why);

 private:
  using Kind = PartOrder::Kind;

  bool has(int rank) const {
    return rank >= options_.first && rank < options_.first + options_.count;
  }
  void order(Kind kind, std::vector<int> ranks = {});
  void answer_instead();
  void over(int rank, RankOutcome outcome);
  void noted(int rank);
  void give_lost_facts();

  boost::asio::io_context& io_;
  const PartOptions options_;
  const PartHandlers handlers_;
  const Send send_;
  std::set<int> noted_, over_;
  std::map<int, RankFacts> facts_;  // By rank.
  std::string node_lost_;
  // The node has not answered.
  bool owes_seen_ = false, owes_looked_ = false, owes_facts_ = false;
  bool has_reached_host_ = false, has_lost_host_ = false, is_over_ = false;
};

}  // namespace distrun
