#include "launcher/nodes/nodes_member.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "launcher/nodes/heartbeat.h"
#include "launcher/nodes/name_look_up.h"
#include "launcher/nodes/node_channel.h"
#include "launcher/nodes/operation_outbox.h"
#include "launcher/nodes/store_probe.h"
#include "launcher/nodes/text_inbox.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstPause(50), kLongestPause(2000);  // Between connection attempts.
constexpr milliseconds kOneAttempt(10'000);                   // For name look-up and connection.
constexpr milliseconds kProbeTimeout(2000);                   // For a program that is not node 0.
// After this many missing answers it fails; fewer may come from a previous run's node 0 that is
// exiting.
constexpr int kUnansweredMax = 5;
// While more waits to be sent, operations wait.
constexpr std::size_t kOperationsUnsentMax = 3 * kNodeMessageBytesMax;
constexpr std::size_t kLastUnsentMax = 5 * kNodeMessageBytesMax;
constexpr std::size_t kFlightsUnsentMax = 4 * kNodeMessageBytesMax;
constexpr const char* kIsHere =
    " (a loopback address, so this machine itself: node 0 must run here)";

}  // namespace

struct NodesMember::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, const JoinRequest& asked, const Options& given, NodesHandlers to)
      : io(loop),
        request(asked),
        options(given),
        handlers(std::move(to)),
        socket(loop),
        attempt_timer(loop),
        probe_timer(loop),
        join_timer(loop),
        patience(loop),
        looks(loop),
        inbox(given.text_bytes_max) {}

  enum class Phase { kConnecting, kAsking, kProbing, kJoined, kStarted, kOver };

  asio::io_context& io;
  const JoinRequest request;
  const Options options;
  NodesHandlers handlers;
  Phase phase = Phase::kConnecting;
  tcp::socket socket;
  std::optional<NameLookUp> look_up;
  tcp::endpoint reached;  // The last endpoint that accepted a connection.
  std::optional<StoreProbe> probe;
  std::shared_ptr<NodeChannel> channel;
  asio::steady_timer attempt_timer, probe_timer, join_timer, patience, looks;
  Heartbeat heartbeat;  // Of node 0.
  milliseconds pause = kFirstPause;
  std::string last_reason;  // Why node 0 was not reached.
  std::string host;         // Node 0's name.
  OperationOutbox outbox;
  TextInbox inbox;
  int unanswered = 0;
  int attempt = 0;
  bool closed = false;

  std::string node_0() const { return "node 0 at " + options.address.text(); }

  template <class Do>
  void after(asio::steady_timer& timer, milliseconds time, Do act) {
    timer.expires_after(time);
    timer.async_wait([self = shared_from_this(), act = std::move(act)](error_code error) {
      if (!error && self->phase != Phase::kOver) act(*self);
    });
  }

  void join() {
    after(join_timer, options.join_timeout, [](Impl& impl) { impl.give_up(); });
    after(patience, options.patience, [](Impl& impl) {
      const std::string& why = impl.last_reason;
      impl.notice("waiting for " + impl.node_0() + (why.empty() ? "" : ": " + why));
    });
    connect();
  }

  void give_up() {
    fail(ErrorKind::kTimedOut,
         fmt::format("{} did not answer within {:g} s: {}; is distrun running there with "
                     "--node-rank 0 and this --master-addr?",
                     node_0(), std::chrono::duration<double>(options.join_timeout).count(),
                     last_reason.empty() ? "no answer" : last_reason));
  }

  void fail(ErrorKind kind, const std::string& message) {
    stop();
    handlers.on_error({kind, message});
  }

  void notice(const std::string& text) {
    if (handlers.on_notice) handlers.on_notice(text);
  }

  void connect() {
    phase = Phase::kConnecting;
    after(attempt_timer, kOneAttempt, [](Impl& impl) { impl.try_again("no answer"); });
    error_code not_numeric;
    const auto numeric = asio::ip::make_address(options.address.host, not_numeric);
    if (!not_numeric) return connect_to({{numeric, options.address.port}});
    look_up.emplace(io, options.address.host, options.address.port,
                    [self = shared_from_this()](Result<ResolvedAddresses> found) {
                      if (self->phase != Phase::kConnecting) return;
                      if (!found) return self->try_again(found.error().message);
                      self->connect_to(*found);
                    });
  }

  void connect_to(const ResolvedAddresses& endpoints) {
    socket = tcp::socket(io);
    const bool is_here =
        std::all_of(endpoints.begin(), endpoints.end(),
                    [](const tcp::endpoint& one) { return one.address().is_loopback(); });
    asio::async_connect(
        socket, endpoints,
        [self = shared_from_this(), is_here](error_code error, const tcp::endpoint& at) {
          if (error == asio::error::operation_aborted) return;
          if (self->phase != Phase::kConnecting) return;
          if (error) {
            const Error reason = Error::from_errno("connect", error.value());
            return self->try_again(reason.message + (is_here ? kIsHere : ""));
          }
          self->reached = at;
          self->ask();
        });
  }

  void try_again(const std::string& reason) {
    last_reason = reason;
    error_code ignored;
    socket.close(ignored);
    look_up.reset();
    probe_timer.cancel();
    probe.reset();
    phase = Phase::kConnecting;
    after(attempt_timer, pause, [](Impl& impl) { impl.connect(); });
    pause = std::min(2 * pause, kLongestPause);
  }

  void ask() {
    phase = Phase::kAsking;
    look_up.reset();
    after(attempt_timer, options.answer_timeout,
          [](Impl& impl) { impl.not_node_0("it does not answer"); });
    after(probe_timer, options.probe_after, [](Impl& impl) { impl.look_for_torchrun(); });
    channel = NodeChannel::open(
        std::move(socket), "",
        {.on_message =
             [self = shared_from_this()](const NodeMessage& message) { self->received(message); },
         .on_end = [self = shared_from_this()](const Error& reason) { self->ended(reason); },
         .on_sent = [self = shared_from_this()] { self->send_from_outbox(kOperationsUnsentMax); }});
    channel->greet();
    channel->send(request);
  }

  void not_node_0(const std::string& reason) {
    fail(
        ErrorKind::kProtocol,
        fmt::format(
            "the program that listens at {} is not node 0 of this run: {}; on every node, give the "
            "address of node 0 (--master-addr) and a port that is free on node 0 (--master-port)",
            options.address.text(), reason));
  }

  // PyTorch's store neither answers a node nor closes its connection.
  void look_for_torchrun() {
    probe.emplace(io, reached, [self = shared_from_this()](StoreProbe::Found found) {
      if (found == StoreProbe::Found::kTcpStore) self->not_node_0(found);
    });
  }

  // It only closes connections.
  void find_out_what_listens() {
    phase = Phase::kProbing;
    after(attempt_timer, kProbeTimeout,
          [](Impl& impl) { impl.not_node_0(StoreProbe::Found::kNoStore); });
    probe.emplace(io, reached, [self = shared_from_this()](StoreProbe::Found found) {
      self->not_node_0(found);
    });
  }

  void not_node_0(StoreProbe::Found found) {
    if (found == StoreProbe::Found::kTcpStore) {
      return fail(
          ErrorKind::kProtocol,
          fmt::format("{} runs torchrun, or another program with a TCPStore of PyTorch; start "
                      "{} on every node, with a port that is free on node 0 (--master-port)",
                      node_0(), request.command));
    }
    not_node_0(found == StoreProbe::Found::kDistrunStore
                   ? "it is a distrun that waits for no other nodes (is --nnodes missing there?)"
                   : "it closed the connection");
  }

  void look_after_node_0() {
    constexpr milliseconds kPauseMax(1000);
    after(looks, pause_of(options.heartbeat, kPauseMax), [](Impl& impl) {
      if (!impl.channel || (impl.phase != Phase::kJoined && impl.phase != Phase::kStarted)) return;
      switch (impl.heartbeat.look(now())) {
        case Heartbeat::Finding::kNothing:
          break;
        case Heartbeat::Finding::kSilent:
          impl.notice(impl.node_0() + " has been silent for " + impl.heartbeat.silence_text());
          break;
        case Heartbeat::Finding::kBack:
          impl.notice(impl.node_0() + " answers again");
          break;
        case Heartbeat::Finding::kLost:
          return impl.disconnect({ErrorKind::kTimedOut, impl.heartbeat.loss_text()});
      }
      impl.look_after_node_0();
    });
  }

  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

  void received(const NodeMessage& message) {
    heartbeat.heard(now());
    if (phase == Phase::kAsking) {
      if (const auto* accepted = std::get_if<JoinAccepted>(&message)) return accept(*accepted);
      if (const auto* refused = std::get_if<JoinRefused>(&message)) {
        return fail(ErrorKind::kProtocol, node_0() + " refused this node: " + refused->reason);
      }
      return not_node_0("it sends unexpected messages");
    }
    if (const auto* ask = std::get_if<AskTime>(&message)) {
      channel->send(TellTime{ask->question, options.clock()});
    } else if (const auto* start = std::get_if<StartNode>(&message)) {
      phase = Phase::kStarted;
      attempt = start->attempt;
      handlers.on_order(*start);
    } else if (const auto* stop = std::get_if<StopNode>(&message)) {
      phase = Phase::kStarted;
      handlers.on_order(*stop);
    } else if (const auto* finish = std::get_if<FinishNode>(&message)) {
      handlers.on_order(*finish);
    } else if (const auto* text = std::get_if<NodeText>(&message);
               text && phase == Phase::kStarted) {
      take(*text);
    } else {
      disconnect({ErrorKind::kProtocol, "it sends messages that node 0 does not send"});
    }
  }

  void take(const NodeText& message) {
    const auto text = inbox.add(message);
    if (!text) return disconnect(text.error());
    if (*text && handlers.on_text) handlers.on_text(0, **text);
  }

  void disconnect(const Error& reason) {
    channel->close();
    ended(reason);
  }

  void accept(const JoinAccepted& accepted) {
    phase = Phase::kJoined;
    host = accepted.host;
    heartbeat = Heartbeat(options.heartbeat, now());
    look_after_node_0();
    pause = kFirstPause;
    for (auto* timer : {&attempt_timer, &probe_timer, &join_timer, &patience}) timer->cancel();
    probe.reset();
  }

  void ended(const Error& error) {
    const std::string& reason = error.message;
    channel.reset();
    if (phase == Phase::kAsking) {
      // A wrong answer means another server; a missing one may be temporary.
      if (error.kind == ErrorKind::kProtocol) return not_node_0(reason);
      if (++unanswered >= kUnansweredMax) return find_out_what_listens();
      return try_again(reason);
    }
    if (phase == Phase::kJoined) {
      after(join_timer, options.join_timeout, [](Impl& impl) { impl.give_up(); });
      notice("waiting for " + node_0() + " again: " + reason);
      return try_again(reason);
    }
    NodesVerdict verdict{.status = kExitInternal,
                         .node = 0,
                         .host = host,
                         .headline = "lost: " + reason,
                         .is_of_node_0 = false};
    if (heartbeat.was_stopped(now())) {
      verdict = {.status = kExitInternal,
                 .node = request.node,
                 .host = request.host,
                 .headline = "lost: " + heartbeat.own_loss_text(now())};
    }
    handlers.on_order(StopNode{attempt, /*is_last=*/true, verdict});
  }

  void report(const NodeReport& report) {
    if (phase == Phase::kJoined || phase == Phase::kStarted) {
      const bool is_last = std::holds_alternative<NodeSucceeded>(report) ||
                           std::holds_alternative<NodeStopped>(report);
      if (is_last) send_last_operations();
      if (channel) send(*channel, message_of(report), is_last);
    } else if (const auto* failed = std::get_if<NodeFailed>(&report)) {
      // No connection to node 0, so this node decides.
      stop();
      asio::post(io, [self = shared_from_this(), verdict = failed->verdict] {
        if (!self->closed) self->handlers.on_order(StopNode{0, /*is_last=*/true, verdict});
      });
    }
  }

  // Node 0 may end the run when it has got the last reports.
  static void send(NodeChannel& to, const NodeMessage& report, bool is_last) {
    if (is_last) return to.send_after_texts(report);
    to.send(report);
  }

  void send_operations(int of_attempt, std::vector<RankOperation> operations,
                       std::uint64_t missed) {
    if (phase != Phase::kStarted || !channel) return;
    if (of_attempt != outbox.attempt()) outbox.begin(of_attempt);
    outbox.add(std::move(operations), missed);
    send_from_outbox(kOperationsUnsentMax);
  }

  void send_from_outbox(std::size_t unsent_max) {
    while (channel && !outbox.is_empty() && channel->unsent() < unsent_max) {
      channel->send(outbox.next());
    }
  }

  // Before this node reports that its workers have ended: what does not fit any more is counted.
  void send_last_operations() {
    send_from_outbox(kLastUnsentMax);
    if (channel && !outbox.is_empty()) channel->send(outbox.give_up());
  }

  // Without those for which there is no room.
  void send_flight(const RankFlight& flight) {
    if (phase != Phase::kStarted || !channel || channel->unsent() > kFlightsUnsentMax) return;
    if (const auto fitting = fit_into_message(flight)) channel->send(*fitting);
  }

  void send_text(std::string text) {
    if (phase == Phase::kStarted && channel) channel->send_text(std::move(text));
  }

  void close() {
    closed = true;
    stop();
  }

  void stop() {
    const bool may_have_reported = std::exchange(phase, Phase::kOver) == Phase::kStarted;
    for (auto* timer : {&attempt_timer, &probe_timer, &join_timer, &patience, &looks}) {
      timer->cancel();
    }
    error_code ignored;
    socket.close(ignored);
    look_up.reset();
    probe.reset();
    const auto closed_channel = std::exchange(channel, nullptr);
    if (!closed_channel) return;
    if (may_have_reported) {
      closed_channel->close_last();
    } else {
      closed_channel->close();
    }
  }
};

NodesMember::NodesMember(asio::io_context& io, const JoinRequest& request, const Options& options,
                         NodesHandlers handlers)
    : impl_(std::make_shared<Impl>(io, request, options, std::move(handlers))) {}

NodesMember::~NodesMember() { impl_->close(); }

void NodesMember::join() { impl_->join(); }
void NodesMember::report(const NodeReport& report) { impl_->report(report); }
void NodesMember::send_operations(int attempt, std::vector<RankOperation> operations,
                                  std::uint64_t missed) {
  impl_->send_operations(attempt, std::move(operations), missed);
}
void NodesMember::send_flight(const RankFlight& flight) { impl_->send_flight(flight); }
void NodesMember::send_text(int, std::string text) { impl_->send_text(std::move(text)); }
std::string NodesMember::own_address() const {
  return impl_->channel ? impl_->channel->own_address() : "";
}
void NodesMember::close() { impl_->close(); }

}  // namespace distrun
