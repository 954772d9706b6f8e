#include "launcher/preflight/check_rank.h"

#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/os/host_name.h"
#include "common/os/network_interface.h"
#include "common/text/parse_number.h"
#include "common/text/rank_list.h"
#include "distrun/store_client.h"
#include "launcher/preflight/network_facts.h"
#include "launcher/preflight/node_check.h"
#include "launcher/preflight/node_findings.h"
#include "launcher/preflight/peer_connections.h"
#include "launcher/preflight/read_node_facts.h"
#include "launcher/preflight/run_findings.h"
#include "launcher/preflight/torch_version.h"
#include "launcher/process/worker_process.h"

namespace distrun {

namespace {

constexpr int kClockReadings = 3;
constexpr const char* kPeersKey = "check/peers";
constexpr const char* kDoneKey = "check/done";

// The value of a local rank other than 0.
constexpr const char* kNoReport = "none";

std::string place_key(int rank) { return fmt::format("check/place/{}", rank); }
std::string report_key(int rank) { return fmt::format("check/report/{}", rank); }
std::string reach_key(int rank) { return fmt::format("check/reach/{}", rank); }

class CheckRank {
 public:
  CheckRank(const Environment& environment, std::string host, std::chrono::milliseconds step_max)
      : environment_(environment), host_(std::move(host)), step_max_(step_max) {}

  Result<std::vector<std::string>> check() {
    if (const auto read = read_place(); !read) return read.error();
    auto store = StoreClient::connect({address_, port_}, step_max_);
    if (!store) return store.error().with_context("connect to the store");
    store_.emplace(std::move(*store));
    auto findings = local_rank_ == 0 ? check_node() : leave_to_local_rank_0();
    if (!findings) return findings.error();
    return findings;
  }

 private:
  using Findings = std::vector<std::string>;

  Result<void> read_place() {
    const auto number = [&](const char* name) {
      return parse_number<int>(environment_.get(name).value_or(""), 0);
    };
    const auto rank = number("RANK"), ranks = number("WORLD_SIZE"), local = number("LOCAL_RANK");
    const auto port = number("MASTER_PORT");
    address_ = environment_.get("MASTER_ADDR").value_or("");
    if (!rank || !ranks || !local || !port || address_.empty()) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("{} is for distrun itself: run distrun check", kCheckRankCommand)};
    }
    rank_ = *rank;
    ranks_ = *ranks;
    local_rank_ = *local;
    port_ = static_cast<std::uint16_t>(*port);
    if (const auto node = number("GROUP_RANK")) node_ = *node;
    return {};
  }

  Result<Findings> leave_to_local_rank_0() {
    if (auto set = store_->set(place_key(rank_), kNoReport); !set) return set.error();
    return Findings();
  }

  // Python and DNS may take long, so they answer while the nodes connect to each other.
  Result<Findings> check_node() {
    OwnNameLookUp look_up(host_name());
    TorchVersion torch(environment_);
    const std::string address = own_address();
    allow_many_descriptors();  // For a connection to each peer.
    auto listener = PeerListener::listen(address);
    if (!listener) return listener.error();
    const Peer own{rank_, node_.value_or(-1), address, listener->port()};
    if (auto set = store_->set(place_key(rank_), encode({own})); !set) return set.error();
    if (rank_ == 0) {
      if (auto gathered = gather_peers(); !gathered) return gathered.error();
    }
    const auto peers = peers_of_run();
    if (!peers) return peers.error();
    auto reached = reach(*listener, *peers);
    if (!reached) return reached.error();
    NodeCheck report = examine(look_up, torch);
    report.address = address;
    report.interface = interface_of(address).value_or("");
    report.mtu = mtu_of(report.interface);
    for (const Peer& peer : *peers) {
      if (peer.rank == rank_) report.node = peer.node;
    }
    if (auto set = store_->set(report_key(rank_), encode(report)); !set) return set.error();
    if (auto set = store_->set(reach_key(rank_), encode(*reached)); !set) return set.error();
    if (rank_ == 0) return compare();
    const auto done = wait_for({0}, [](int) { return std::string(kDoneKey); });
    if (!done) return done.error();
    return Findings();
  }

  NodeCheck examine(OwnNameLookUp& look_up, TorchVersion& torch) {
    NodeFacts facts = read_node_facts(environment_);
    facts.interfaces = network_interfaces();
    facts.own_name = host_name();
    facts.own_name_look = look_up.result();
    NodeCheck report{.host = host_, .torch = torch.result(), .gpus = facts.gpus};
    for (const auto& [name, value] : facts.variables) {
      if (is_compared(name)) report.variables[name] = value;
    }
    report.findings = node_findings(facts);
    return report;
  }

  // The address by which this node reaches the store. On node 0, this may be a loopback address,
  // although the other nodes use a network: then distrun launch has set the variable.
  std::string own_address() {
    const auto own = parse_store_address(store_->own_address());
    std::string address = own ? own->host : address_;
    if (interface_of(address)) return address;
    const auto interface = environment_.get("GLOO_SOCKET_IFNAME").value_or("");
    return address_of(interface).value_or(address);
  }

  // On rank 0: waits for the addresses of the nodes, and sends all of them to each.
  Result<void> gather_peers() {
    std::vector<int> ranks(static_cast<std::size_t>(ranks_));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (const auto waited = wait_for(ranks, place_key); !waited) return waited.error();
    std::vector<Peer> peers;
    for (const int rank : ranks) {
      const auto text = store_->get(place_key(rank));
      if (!text) return text.error();
      if (*text == kNoReport) continue;
      auto place = decode_peers(text->value_or(""));
      if (!place) return place.error();
      for (Peer& peer : *place) {
        // If the engine does not count the nodes, they are counted here.
        if (peer.node < 0) peer.node = static_cast<int>(peers.size());
        peers.push_back(std::move(peer));
      }
      ranks_of_nodes_.push_back(rank);
    }
    return store_->set(kPeersKey, encode(peers));
  }

  Result<std::vector<Peer>> peers_of_run() {
    const auto waited = wait_for({0}, [](int) { return std::string(kPeersKey); });
    if (!waited) return waited.error();
    const auto text = store_->get(kPeersKey);
    if (!text) return text.error();
    return decode_peers(text->value_or(""));
  }

  Result<ReachReport> reach(PeerListener& listener, std::vector<Peer> peers) {
    ReachReport report;
    for (int i = 0; i < kClockReadings; ++i) {
      const auto met = store_->barrier(fmt::format("check/clock/{}", i),
                                       static_cast<std::int64_t>(peers.size()), step_max_);
      if (!met) return met.error();
      report.clock.push_back(wall_time_now());
    }
    std::erase_if(peers, [this](const Peer& peer) { return peer.rank == rank_; });
    report.unreachable = listener.connect_to(peers);
    return report;
  }

  Result<Findings> compare() {
    if (const auto waited = wait_for(ranks_of_nodes_, reach_key); !waited) return waited.error();
    std::vector<CheckedNode> nodes;
    for (const int rank : ranks_of_nodes_) {
      const auto report = store_->get(report_key(rank)), reach = store_->get(reach_key(rank));
      if (!report) return report.error();
      if (!reach) return reach.error();
      auto checked = decode_check(report->value_or(""));
      auto reached = decode_reach(reach->value_or(""));
      if (!checked) return checked.error();
      if (!reached) return reached.error();
      nodes.push_back({.report = std::move(*checked), .reach = std::move(*reached)});
    }
    if (const auto set = store_->set(kDoneKey, ""); !set) return set.error();
    return run_findings(std::move(nodes));
  }

  // Waits for the keys that these ranks set, and names the ranks that do not.
  Result<void> wait_for(const std::vector<int>& ranks,
                        const std::function<std::string(int rank)>& key_of) {
    std::vector<std::string> keys;
    keys.reserve(ranks.size());
    for (const int rank : ranks) keys.push_back(key_of(rank));
    auto waited = store_->wait(keys, step_max_);
    if (waited || waited.error().kind != ErrorKind::kTimedOut) return waited;
    std::vector<int> missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto exists = store_->check({keys[i]});
      if (exists && !*exists) missing.push_back(ranks[i]);
    }
    if (missing.empty()) return {};
    return Error{
        ErrorKind::kTimedOut,
        fmt::format("{} did not answer within {:g} s: look for a file system that hangs "
                    "on its node",
                    list_of_ranks(missing), std::chrono::duration<double>(step_max_).count())};
  }

  const Environment& environment_;
  const std::string host_;
  const std::chrono::milliseconds step_max_;
  std::string address_;
  std::uint16_t port_ = 0;
  int rank_ = 0, ranks_ = 1, local_rank_ = 0;
  std::optional<int> node_;
  std::optional<StoreClient> store_;
  std::vector<int> ranks_of_nodes_;  // On rank 0.
};

}  // namespace

Result<std::vector<std::string>> check_as_rank(const Environment& environment,
                                               const std::string& host,
                                               std::chrono::milliseconds step_max) {
  return CheckRank(environment, host, step_max).check();
}

}  // namespace distrun
