#include "launcher/run/nccl_ras.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/os/proc.h"
#include "store/network/local_process.h"
#include "store/network/socket_table.h"

namespace distrun {

namespace {

namespace ip = boost::asio::ip;

// RAS needs no other answer before the next command. With the timeout, in whole seconds, it does
// not wait longer for processes that it knows to be slow. "Verbose" names more ranks.
constexpr std::string_view kQuestion = "CLIENT PROTOCOL 2\nTIMEOUT 1\nVERBOSE STATUS\n";
// With 16,000 ranks, a report has about 1 MiB.
constexpr std::size_t kReportBytesMax = std::size_t{2} << 20;
// At once, so that other handlers of the loop run.
constexpr std::size_t kBytesAtOnce = std::size_t{256} << 10;
constexpr std::size_t kRasConnectionsMax = 5;

// Where a connection to this address and port could end.
bool is_same_place(const SocketRow& own, const SocketRow& other) {
  return own.port == other.port && (own.address == other.address || own.address.is_unspecified() ||
                                    other.address.is_unspecified());
}

bool must_wait() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

std::optional<std::uint16_t> ras_port_of(pid_t pid) { return ras_port(proc_file(pid, "environ")); }

std::optional<ip::tcp::endpoint> NcclRas::server_of(
    const std::vector<WorkerPool::Processes>& workers) const {
  auto table = SocketTable::open();
  if (!table) return std::nullopt;
  const auto listening = table->rows({.states = 1U << TCP_LISTEN});
  if (!listening || listening->empty()) return std::nullopt;
  std::unordered_map<std::uint64_t, pid_t> own;  // By inode.
  for (const auto& worker : workers) {
    for (const pid_t pid : worker.pids) {
      for (const std::uint64_t inode : sockets_of(pid)) own.emplace(inode, pid);
    }
  }
  // Only of processes that listen, because reading it may block.
  std::unordered_map<pid_t, std::optional<std::uint16_t>> ports;
  for (const SocketRow& row : *listening) {
    const auto found = own.find(row.inode);
    if (found == own.end()) continue;
    const auto [port, is_new] = ports.try_emplace(found->second);
    if (is_new) port->second = port_of_(found->second);
    if (port->second != row.port) continue;
    const auto is_foreign = [&](const SocketRow& other) {
      return is_same_place(row, other) && own.count(other.inode) == 0;
    };
    if (std::any_of(listening->begin(), listening->end(), is_foreign)) continue;
    return ip::tcp::endpoint(row.address, row.port);  // Unspecified: Linux connects to loopback.
  }
  return std::nullopt;
}

void NcclRas::ask(const std::vector<WorkerPool::Processes>& workers,
                  std::chrono::milliseconds patience) {
  connections_.clear();
  deadline_ = {};
  patience_ = patience;
  names_ = {.ranks = {}, .world_size = plan_.world_size};
  server_ = server_of(workers);
  if (!server_) return;
  port_ = server_->port();
  // With several nodes, processes of other nodes may have the same pids.
  for (const auto& worker : workers) {
    if (plan_.options.nnodes > 1) break;
    for (const pid_t pid : worker.pids) names_.ranks.emplace(pid, worker.rank.value());
  }
  connect();
}

void NcclRas::connect() {
  Connection& connection = connections_.emplace_back();
  connection.unsent = kQuestion;
  connection.fd.reset(::socket(server_->protocol().family(),
                               SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  connection.has_ended =
      !connection.fd || (::connect(connection.fd.get(), server_->data(),
                                   static_cast<socklen_t>(server_->size())) != 0 &&
                         errno != EINPROGRESS);
  if (!connection.has_ended) advance(connection);
}

void NcclRas::advance(Connection& connection) {
  auto& [fd, unsent, answer, has_ended] = connection;
  while (!has_ended && !unsent.empty()) {
    const auto sent = ::send(fd.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && must_wait()) return;
    if (sent < 0) has_ended = true;
    if (sent > 0) unsent.remove_prefix(static_cast<std::size_t>(sent));
  }
  std::array<char, 16384> piece;
  for (std::size_t bytes = 0; !has_ended && bytes < kBytesAtOnce;) {
    const auto received = ::recv(fd.get(), piece.data(), piece.size(), 0);
    if (received < 0 && must_wait()) return;
    if (received > 0) answer.append(piece.data(), static_cast<std::size_t>(received));
    if (received > 0) bytes += static_cast<std::size_t>(received);
    has_ended = received <= 0 || answer.size() >= kReportBytesMax;
    if (may_be_of_ras(answer)) continue;
    answer.clear();
    has_ended = true;
  }
}

bool NcclRas::is_waiting() {
  if (connections_.empty()) return false;
  const auto now = std::chrono::steady_clock::now();
  if (deadline_ == std::chrono::steady_clock::time_point()) {
    deadline_ = now + patience_;
    connected_ = now;
  }
  for (Connection& connection : connections_) {
    if (!connection.has_ended) advance(connection);
    if (connection.has_ended && !connection.answer.empty()) return false;
  }
  if (now >= deadline_) return false;
  const auto ended = [](const Connection& connection) { return connection.has_ended; };
  const auto silent = [](const Connection& connection) { return connection.answer.empty(); };
  if (std::all_of(connections_.begin(), connections_.end(), ended)) return false;
  if (std::all_of(connections_.begin(), connections_.end(), silent) &&
      connections_.size() < kRasConnectionsMax && now - connected_ >= kSilenceMax) {
    connected_ = now;
    connect();
  }
  return true;
}

std::string NcclRas::line() {
  std::string answer;
  RasEnd end = RasEnd::kClosed;
  for (Connection& connection : connections_) {
    if (!connection.has_ended) advance(connection);
    if (connection.answer.size() <= answer.size()) continue;
    answer = std::move(connection.answer);
    end = answer.size() >= kReportBytesMax ? RasEnd::kCut
          : connection.has_ended           ? RasEnd::kClosed
                                           : RasEnd::kWaiting;
  }
  connections_.clear();
  return ras_line(answer, names_, end);
}

}  // namespace distrun
