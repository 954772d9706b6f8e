#include "backends/shm/host/host_meeting.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <optional>
#include <sstream>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/shm/host/text_of.h"
#include "common/os/packet_socket.h"
#include "common/os/socket_peer.h"
#include "common/text/rank_list.h"

namespace distrun::shm {

namespace {

using Clock = std::chrono::steady_clock;

// The contents of a card. Packets are "MAGIC RANK SECRET".
constexpr const char* kMagic = "distrun-shm-1";

struct Card {
  std::string host, socket, secret;
};

std::optional<Card> parse_card(const std::string& text) {
  std::istringstream in(text);
  std::string magic;
  Card card;
  if (!(in >> magic >> card.host >> card.socket >> card.secret) || magic != kMagic) {
    return std::nullopt;
  }
  return card;
}

// A name that the user gives, as a word.
std::string given_host() {
  const char* given = std::getenv("DISTRUN_HOST_ID");
  std::string word = given == nullptr ? "" : given;
  std::replace_if(
      word.begin(), word.end(), [](unsigned char each) { return each <= ' '; }, '_');
  return word;
}

// Processes with the same text can reach each other's sockets: one kernel, one network namespace.
std::string this_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  struct stat network {};
  const bool has_network = ::stat("/proc/self/ns/net", &network) == 0;
  return text_of(boot.empty() ? "unknown" : boot, "/",
                 has_network ? static_cast<unsigned long>(network.st_ino) : 0UL, "/", given_host());
}

Result<std::string> make_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error::from_errno("read random bytes");
  }
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (const unsigned char byte : bytes) text << std::setw(2) << static_cast<int>(byte);
  return text.str();
}

// The error of the call that has just failed.
Error out_of_descriptors(const char* what) {
  const int error_number = errno;
  Error error = Error::from_errno(what, error_number);
  if (error_number == EMFILE || error_number == ENFILE) error.message += ": raise `ulimit -n`";
  return error;
}

void limit_waits(int socket, Clock::time_point deadline) {
  const auto left =
      std::max(deadline - Clock::now(), Clock::duration(std::chrono::milliseconds(1)));
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(left).count();
  const timeval limit{.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

// An abstract name, which the kernel chose.
Result<std::string> name_of(int socket) {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Error::from_errno("read the name of a socket");
  }
  constexpr std::size_t kBefore = offsetof(sockaddr_un, sun_path) + 1;
  return std::string(address.sun_path + 1, size - kBefore);
}

Result<UniqueFd> connect_to(const std::string& name, Clock::time_point deadline) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return out_of_descriptors("make a Unix socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) {
    return Error{ErrorKind::kProtocol, "the name of its socket is too long"};
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  limit_waits(socket.get(), deadline);
  int done = -1;
  do {
    done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size);
  } while (done != 0 && errno == EINTR);
  if (done != 0) return Error::from_errno("connect to its socket");
  return socket;
}

// Sockets that have connected, from ranks and from strangers.
class Arrivals {
 public:
  explicit Arrivals(int listener) : listener_(listener) {}

  // The next one that can be read, or null if the deadline passes.
  Result<UniqueFd> next(Clock::time_point deadline) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0) return UniqueFd();
      std::vector<pollfd> ready = {{.fd = listener_, .events = POLLIN, .revents = 0}};
      for (const UniqueFd& each : silent_) {
        ready.push_back({.fd = each.get(), .events = POLLIN, .revents = 0});
      }
      const int count = ::poll(ready.data(), ready.size(),
                               static_cast<int>(std::min<long>(left.count(), 60'000)));
      if (count < 0 && errno != EINTR) return Error::from_errno("wait for other ranks");
      if (count <= 0) continue;
      for (std::size_t i = 0; i < silent_.size(); ++i) {
        if (ready[i + 1].revents == 0) continue;
        UniqueFd one = std::move(silent_[i]);
        silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
        return one;
      }
      UniqueFd socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      if (socket) {
        silent_.push_back(std::move(socket));
      } else if (errno != EINTR && errno != ECONNABORTED) {
        return out_of_descriptors("accept a connection");
      }
    }
  }

 private:
  const int listener_;
  std::vector<UniqueFd> silent_;
};

// Of the process at the other end. 0 if the kernel does not say.
pid_t process_at(int socket) {
  const auto its = socket_peer(socket);
  return its ? std::max(its->pid, 0) : 0;
}

// The process, or the socket to it if the kernel has no descriptor of it.
UniqueFd presence_of(pid_t process, UniqueFd socket) {
  if (process == 0) return socket;
  UniqueFd descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  return descriptor ? std::move(descriptor) : std::move(socket);
}

bool is_same_user(int socket) {
  const auto its = socket_peer(socket);
  return its && its->uid == ::geteuid();
}

Result<HostPeer> peer_of(Packet& packet, UniqueFd socket) {
  if (packet.has_ended || packet.descriptors.size() != 1) {
    return Error{ErrorKind::kProtocol, "it did not send its memory"};
  }
  const pid_t process = process_at(socket.get());
  return HostPeer{.memory = std::move(packet.descriptors[0]),
                  .presence = presence_of(process, std::move(socket)),
                  .process = process};
}

}  // namespace

Result<HostMeeting> HostMeeting::open(int rank, int ranks) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return out_of_descriptors("make a Unix socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Without a name, the kernel chooses one.
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) != 0 ||
      ::listen(socket.get(), ranks) != 0) {
    return Error::from_errno("listen on a Unix socket");
  }
  auto name = name_of(socket.get());
  if (!name) return name.error();
  auto secret = make_secret();
  if (!secret) return secret.error();
  std::string host = this_host();
  std::string card = text_of(kMagic, " ", host, " ", *name, " ", *secret);
  return HostMeeting(rank, std::move(socket), std::move(host), std::move(*secret), std::move(card));
}

std::vector<int> HostMeeting::elsewhere(const std::vector<std::string>& cards) const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const auto card = parse_card(cards[i]);
    if (!card || card->host != host_) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

std::vector<std::string> HostMeeting::hosts(const std::vector<std::string>& cards) {
  std::vector<std::string> all;
  all.reserve(cards.size());
  for (const std::string& each : cards) {
    const auto card = parse_card(each);
    all.push_back(card ? card->host : "");
  }
  return all;
}

std::string HostMeeting::secret(const std::string& card) {
  const auto its = parse_card(card);
  return its ? its->secret : "";
}

Result<std::vector<HostPeer>> HostMeeting::meet(const std::vector<std::string>& cards,
                                                const std::vector<int>& names, int memory,
                                                Clock::time_point deadline) {
  const std::size_t ranks = cards.size();
  const auto me = static_cast<std::size_t>(rank_);
  std::vector<HostPeer> peers(ranks);
  const auto context = [&](std::size_t rank) { return text_of("rank ", names[rank]); };

  // Lower ranks accept, and higher ones connect. The first packet fits into the socket, so
  // no rank waits for one that waits for it.
  std::vector<UniqueFd> lower(me);
  for (std::size_t rank = 0; rank < me; ++rank) {
    const auto card = parse_card(cards[rank]);
    if (!card) return Error{ErrorKind::kProtocol, context(rank) + ": its card is malformed"};
    auto socket = connect_to(card->socket, deadline);
    if (!socket) return socket.error().with_context(context(rank));
    const auto sent = send_packet(socket->get(), text_of(rank_, " ", card->secret), {memory});
    if (!sent) return sent.error().with_context(context(rank));
    lower[rank] = std::move(*socket);
  }
  Arrivals arrivals(socket_.get());
  std::size_t missing = ranks - me - 1;
  while (missing > 0) {
    auto socket = arrivals.next(deadline);
    if (!socket) return socket.error();
    if (!*socket) {
      std::vector<int> who;
      for (std::size_t rank = me + 1; rank < ranks; ++rank) {
        if (!peers[rank].memory) who.push_back(names[rank]);
      }
      std::sort(who.begin(), who.end());
      return Error{ErrorKind::kTimedOut,
                   text_of("timed out: ", list_of_ranks(who), " did not connect")};
    }
    if (!is_same_user(socket->get())) continue;
    limit_waits(socket->get(), deadline);
    auto packet = receive_packet(socket->get());
    if (!packet && packet.error().kind == ErrorKind::kSystem) return packet.error();
    if (!packet) continue;  // From a stranger that has gone, or that sends too much.
    std::istringstream in(packet->bytes);
    std::size_t rank = 0;
    std::string secret;
    const bool is_peer = static_cast<bool>(in >> rank >> secret) && secret == secret_ &&
                         rank > me && rank < ranks && !peers[rank].memory;
    if (!is_peer) continue;  // A stranger.
    const auto sent = send_packet(socket->get(), std::to_string(me), {memory});
    if (!sent) return sent.error().with_context(context(rank));
    auto peer = peer_of(*packet, std::move(*socket));
    if (!peer) return peer.error().with_context(context(rank));
    peers[rank] = std::move(*peer);
    --missing;
  }
  for (std::size_t rank = 0; rank < me; ++rank) {
    auto packet = receive_packet(lower[rank].get());
    if (!packet) return packet.error().with_context(context(rank));
    auto peer = peer_of(*packet, std::move(lower[rank]));
    if (!peer) return peer.error().with_context(context(rank));
    peers[rank] = std::move(*peer);
  }
  return peers;
}

}  // namespace distrun::shm
