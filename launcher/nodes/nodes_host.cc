#include "launcher/nodes/nodes_host.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "launcher/nodes/clock_offset.h"
#include "launcher/nodes/heartbeat.h"
#include "launcher/nodes/text_inbox.h"
#include "launcher/nodes/torchrun_key.h"
#include "store/network/endpoint_text.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Connections that have not joined, besides one per node.
constexpr std::size_t kStrangersMax = 64;

// The first refused connections are reported one by one, later ones whenever their number doubles.
constexpr int kNamedMax = 5;

// The first questions for a node's time follow at once, the others after a pause.
constexpr int kQuickQuestions = 8;
constexpr auto kQuestionPause = std::chrono::seconds(1);

NodesCoordinator::Options coordinator_options(const JoinRequest& own,
                                              const NodesHost::Options& options) {
  return {.nodes = own.nodes,
          .command = own.command,
          .run_id = own.run_id,
          .max_restarts = own.max_restarts,
          .hang_after = std::chrono::milliseconds(own.hang_after_ms),
          .heartbeat = std::chrono::milliseconds(own.heartbeat_ms),
          .records = own.records,
          .join_timeout = options.join_timeout,
          .stop_timeout = options.stop_timeout};
}

bool has(const RanksOfNode& node, Rank rank) {
  return rank.value() >= node.first && rank.value() < node.first + node.count;
}

}  // namespace

struct NodesHost::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, const JoinRequest& request, const Options& given, NodesHandlers to)
      : io(loop),
        own(request),
        options(given),
        handlers(std::move(to)),
        coordinator(coordinator_options(request, given), now()),
        deadline(loop),
        patience(loop),
        questions(loop) {}

  struct Peer {
    std::shared_ptr<NodeChannel> channel;
    std::unique_ptr<asio::steady_timer> timer;  // Until it asks to join.
    int node = 0;
    std::optional<RanksOfNode> its;  // Known when all nodes have joined.
    ClockOffset clock;
    std::int64_t question = 0;  // The last one.
    bool waits = false;         // For its answer.
    NodesCoordinator::TimePoint asked, answered;
    Heartbeat heartbeat;
    TextInbox inbox;
  };

  asio::io_context& io;
  const JoinRequest own;
  const Options options;
  NodesHandlers handlers;
  NodesCoordinator coordinator;
  asio::steady_timer deadline, patience, questions;
  std::map<NodePeer, Peer> strangers, joined;
  std::map<int, NodePeer> peer_of;
  NodePeer last_peer = kOwnNode;
  bool started = false;  // The first attempt.
  bool closed = false;
  int turned_away = 0, next_sum = 2 * kNamedMax;

  static NodesCoordinator::TimePoint now() { return std::chrono::steady_clock::now(); }

  void step(const NodeEvent& event) {
    if (closed) return;
    for (const NodeAction& action : coordinator.step(event, now())) {
      std::visit([this](const auto& what) { perform(what); }, action);
    }
    wait_for_deadline();
  }

  void wait_for_deadline() {
    const auto next = coordinator.next_deadline();
    if (!next || closed) {
      deadline.cancel();
      return;
    }
    deadline.expires_at(*next);
    deadline.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->step(NodesTick{});
    });
  }

  void perform(const AcceptNode& action) {
    peer_of[action.node] = action.peer;
    if (action.peer == kOwnNode) return;
    auto moved = strangers.extract(action.peer);
    moved.mapped().timer.reset();
    moved.mapped().channel->send(JoinAccepted{own.host});
    moved.mapped().node = action.node;
    moved.mapped().answered = now();
    moved.mapped().heartbeat = Heartbeat(options.heartbeat, now());
    moved.mapped().inbox = TextInbox(options.text_bytes_max);
    ask_time(joined.insert(std::move(moved)).position->second);
  }

  // Compares its clock with this one's.
  void ask_time(Peer& peer) {
    peer.waits = true;
    peer.asked = now();
    peer.channel->send(AskTime{++peer.question});
  }

  void ask_times() {
    questions.expires_after(pause_of(options.heartbeat, kQuestionPause));
    questions.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->closed) return;
      std::vector<NodePeer> all;
      for (const auto& [number, peer] : self->joined) all.push_back(number);
      for (const NodePeer number : all) {  // Asking may end the connection.
        const auto found = self->joined.find(number);
        if (found != self->joined.end() && !found->second.waits) self->ask_time(found->second);
        self->look_after(number);
      }
      self->ask_times();
    });
  }

  // Notices a node that is frozen, or whose network loses everything.
  void look_after(NodePeer number) {
    const auto found = joined.find(number);
    if (found == joined.end()) return;
    Peer& peer = found->second;
    const std::string name = coordinator.name(peer.node);
    switch (peer.heartbeat.look(now())) {
      case Heartbeat::Finding::kNothing:
        return;
      case Heartbeat::Finding::kSilent:
        return notice(name + " has been silent for " + peer.heartbeat.silence_text());
      case Heartbeat::Finding::kBack:
        return notice(name + " answers again");
      case Heartbeat::Finding::kLost:
        return turn_out(number, peer.heartbeat.loss_text());
    }
  }

  void handle(NodePeer number, const TellTime& answer) {
    Peer& peer = joined.at(number);
    if (!peer.waits || answer.question != peer.question) return;
    peer.waits = false;
    peer.answered = now();
    peer.clock.add({.told = answer.time,
                    .answered = std::chrono::system_clock::now(),
                    .round_trip = now() - peer.asked});
    if (peer.question < kQuickQuestions) ask_time(peer);
  }

  const RanksOfNode& ranks_of(Peer& peer) {
    if (!peer.its) peer.its = coordinator.ranks()[static_cast<std::size_t>(peer.node)];
    return *peer.its;
  }

  void handle(NodePeer number, const RankFlight& flight) {
    if (!has(ranks_of(joined.at(number)), flight.rank)) {
      return turn_out(number, "it sends operations of other nodes' ranks");
    }
    if (handlers.on_flight) handlers.on_flight(flight);
  }

  void handle(NodePeer number, const NodeOperations& message) {
    Peer& peer = joined.at(number);
    const auto clock = peer.clock.estimate(std::chrono::system_clock::now());
    if (!clock || !handlers.on_operations) return;
    const RanksOfNode& its = ranks_of(peer);
    NodeOperations here = message;
    here.node = peer.node;
    for (auto& [rank, operation] : here.operations) {
      if (!has(its, rank)) {
        return turn_out(number, "it sends operations of other nodes' ranks");
      }
      const auto by_own_clock = [&](OperationTime time) {
        return std::clamp(time - clock->offset, OperationTime(), kOperationTimeMax);
      };
      operation.node = peer.node;
      operation.clock_error = clock->error;
      operation.began = by_own_clock(operation.began);
      if (operation.ended) operation.ended = by_own_clock(*operation.ended);
    }
    handlers.on_operations(here);
  }

  void handle(NodePeer number, const NodeText& message) {
    Peer& peer = joined.at(number);
    if (!started) {
      const std::string reason = "it sends texts before the run has started";
      not_let_in(coordinator.name(peer.node) + " was refused: " + reason);
      return turn_out(number, reason);
    }
    const auto text = peer.inbox.add(message);
    if (!text) return turn_out(number, text.error().message);
    if (*text && handlers.on_text) handlers.on_text(peer.node, **text);
  }

  void send_text(int node, std::string text) {
    const auto peer = peer_of.find(node);
    if (!started || peer == peer_of.end()) return;
    const auto found = joined.find(peer->second);  // It may be lost already.
    if (found != joined.end()) found->second.channel->send_text(std::move(text));
  }

  void turn_out(NodePeer peer, const std::string& reason) {
    joined.at(peer).channel->close();
    ended(peer, reason);
  }

  std::chrono::nanoseconds clock_ahead(int node) const {
    const auto number = peer_of.find(node);
    const auto peer = number == peer_of.end() ? joined.end() : joined.find(number->second);
    if (peer == joined.end()) return {};
    const auto clock = peer->second.clock.estimate(std::chrono::system_clock::now());
    return clock ? clock->offset : std::chrono::nanoseconds(0);
  }

  std::vector<RanksOfNode> silent() const {
    std::vector<RanksOfNode> all;
    const auto ranks = coordinator.ranks();
    for (const auto& [number, peer] : joined) {
      if (now() - peer.answered <= options.silence) continue;
      all.push_back(ranks[static_cast<std::size_t>(peer.node)]);
    }
    return all;
  }

  void perform(const RefuseNode& action) {
    if (action.peer == kOwnNode) {
      return later([reason = action.reason](Impl& impl) {
        impl.handlers.on_error({ErrorKind::kInvalidArgument, reason});
      });
    }
    auto refused = strangers.extract(action.peer);
    not_let_in("a node at " + refused.mapped().channel->remote() +
               " was refused: " + action.reason);
    refused.mapped().channel->close_with(JoinRefused{action.reason});
  }

  void perform(const RenewStore& action) {
    if (handlers.on_renew_store) handlers.on_renew_store(action.attempt);
  }

  void perform(const OrderNode& action) {
    if (std::holds_alternative<StopNode>(action.order)) {
      be_patient(options.stop_patience);
    } else {
      patience.cancel();
    }
    const NodePeer peer = peer_of.at(action.node);
    const auto* start = std::get_if<StartNode>(&action.order);
    started = started || start != nullptr;
    if (start != nullptr && start->attempt == 0 && peer == kOwnNode && handlers.on_ranks) {
      handlers.on_ranks(coordinator.ranks());
    }
    if (peer != kOwnNode) {
      const auto found = joined.find(peer);  // It may be lost already.
      if (found != joined.end()) send(*found->second.channel, action.order);
      return;
    }
    later([order = action.order](Impl& impl) { impl.handlers.on_order(order); });
  }

  // A node that gets the last order closes its connection, and one that starts another attempt does
  // not expect texts of the previous one.
  static void send(NodeChannel& channel, const NodeOrder& order) {
    if (std::holds_alternative<StopNode>(order)) return channel.send(message_of(order));
    channel.send_after_texts(message_of(order));
  }

  template <class Do>
  void later(Do act) {
    asio::post(io, [self = shared_from_this(), act = std::move(act)] {
      if (!self->closed) act(*self);
    });
  }

  void notice(const std::string& text) {
    if (handlers.on_notice) handlers.on_notice(text);
  }

  void not_let_in(const std::string& text) {
    if (++turned_away <= kNamedMax) return notice(text);
    if (turned_away < next_sum) return;
    next_sum *= 2;
    notice(std::to_string(turned_away) +
           " connections were rejected so far; the last one: " + text);
  }

  void take(tcp::socket socket, std::string received) {
    if (closed || strangers.size() >= kStrangersMax + static_cast<std::size_t>(own.nodes)) return;
    const NodePeer peer = ++last_peer;
    Peer& stranger = strangers[peer];
    stranger.timer = std::make_unique<asio::steady_timer>(io, options.request_timeout);
    stranger.timer->async_wait([self = shared_from_this(), peer](error_code error) {
      if (error || self->strangers.count(peer) == 0) return;
      self->drop_stranger(peer, "it did not ask to join in time");
    });
    stranger.channel = NodeChannel::open(
        std::move(socket), std::move(received),
        {.on_message = [self = shared_from_this(),
                        peer](const NodeMessage& message) { self->received(peer, message); },
         .on_end = [self = shared_from_this(),
                    peer](const Error& reason) { self->ended(peer, reason.message); }});
  }

  Result<bool> check_key(const tcp::endpoint& client, std::string_view key) {
    if (closed || !coordinator.is_joining()) return false;
    const auto run = run_of_torchrun_key(key);
    if (!run) return true;
    const std::string address = unmapped(client).address().to_string();
    if (*run == own.run_id) {
      step(TorchrunCame{address});
    } else {
      not_let_in("a node at " + address + " was refused: it runs torchrun, with another --rdzv-id");
    }
    return Error{ErrorKind::kProtocol, "it is torchrun; start " + own.command + " on every node"};
  }

  void received(NodePeer peer, const NodeMessage& message) {
    if (const auto its = joined.find(peer); its != joined.end()) its->second.heartbeat.heard(now());
    if (strangers.count(peer) > 0) {
      if (const auto* request = std::get_if<JoinRequest>(&message)) {
        return step(NodeAsked{peer, *request});
      }
      return drop_stranger(peer, "it does not begin with a request to join");
    }
    std::visit(
        [&](const auto& some) {
          using Message = std::decay_t<decltype(some)>;
          if constexpr (std::is_constructible_v<NodeReport, Message>) {
            step(NodeReported{peer, some});
          } else if constexpr (std::is_same_v<Message, NodeOperations> ||
                               std::is_same_v<Message, RankFlight> ||
                               std::is_same_v<Message, TellTime> ||
                               std::is_same_v<Message, NodeText>) {
            handle(peer, some);
          } else {
            turn_out(peer, "it sends messages of node 0");
          }
        },
        message);
  }

  void ended(NodePeer peer, const std::string& reason) {
    if (strangers.count(peer) > 0) return drop_stranger(peer, reason);
    const auto its = joined.extract(peer);
    if (its.empty()) return;
    const Heartbeat& heartbeat = its.mapped().heartbeat;
    if (heartbeat.was_stopped(now())) {
      return step(NodeLost{peer, heartbeat.own_loss_text(now()), /*is_by_node_0=*/true});
    }
    step(NodeLost{peer, reason});
  }

  void drop_stranger(NodePeer peer, const std::string& reason) {
    auto dropped = strangers.extract(peer);
    dropped.mapped().channel->close();
    not_let_in("a client at " + dropped.mapped().channel->remote() +
               " is not a node of this run: " + reason);
  }

  // After `time`, reports what node 0 waits for. Does not wait longer for silent nodes to stop.
  void be_patient(std::chrono::milliseconds time) {
    patience.expires_after(time);
    patience.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->closed) return;
      if (self->coordinator.is_stopping()) self->turn_out_silent();
      const std::string awaited = self->coordinator.awaited();
      if (!awaited.empty()) self->notice("waiting for " + awaited);
    });
  }

  // Nodes that do not answer will not end their workers either.
  void turn_out_silent() {
    std::vector<NodePeer> silent;
    for (const auto& [number, peer] : joined) {
      if (now() - peer.answered > options.silence) silent.push_back(number);
    }
    for (const NodePeer number : silent) {
      if (joined.contains(number)) turn_out(number, "it does not answer");
    }
  }

  void join() {
    be_patient(options.patience);
    ask_times();
    step(NodeAsked{kOwnNode, own});
  }

  void close() {
    closed = true;
    deadline.cancel();
    patience.cancel();
    questions.cancel();
    for (auto& [peer, its] : strangers) its.channel->close();
    for (auto& [peer, its] : joined) its.channel->close_last();
    strangers.clear();
    joined.clear();
  }
};

NodesHost::NodesHost(asio::io_context& io, const JoinRequest& own, const Options& options,
                     NodesHandlers handlers)
    : impl_(std::make_shared<Impl>(io, own, options, std::move(handlers))) {}

NodesHost::~NodesHost() { impl_->close(); }

void NodesHost::take(tcp::socket socket, std::string received) {
  impl_->take(std::move(socket), std::move(received));
}

Result<bool> NodesHost::check_key(const tcp::endpoint& client, std::string_view key) {
  return impl_->check_key(client, key);
}

std::string NodesHost::missing() const { return impl_->coordinator.missing(); }

void NodesHost::join() { impl_->join(); }
void NodesHost::report(const NodeReport& report) { impl_->step(NodeReported{kOwnNode, report}); }
void NodesHost::send_text(int node, std::string text) { impl_->send_text(node, std::move(text)); }
std::chrono::nanoseconds NodesHost::clock_ahead(int node) const { return impl_->clock_ahead(node); }
std::vector<RanksOfNode> NodesHost::silent() const { return impl_->silent(); }
std::string NodesHost::own_address() const {
  return impl_->joined.empty() ? "" : impl_->joined.begin()->second.channel->own_address();
}
void NodesHost::close() { impl_->close(); }

}  // namespace distrun
