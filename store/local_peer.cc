#include "store/local_peer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/parse_number.h"
#include "common/unique_fd.h"

namespace distrun {

namespace {

using boost::asio::ip::tcp;
namespace fs = std::filesystem;

tcp::endpoint unmapped(const tcp::endpoint& endpoint) {
  if (!endpoint.address().is_v6() || !endpoint.address().to_v6().is_v4_mapped()) return endpoint;
  return {boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, endpoint.address().to_v6()),
          endpoint.port()};
}

void copy_address(const tcp::endpoint& endpoint, __be32 (&to)[4]) {
  if (endpoint.address().is_v4()) {
    const auto bytes = endpoint.address().to_v4().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    const auto bytes = endpoint.address().to_v6().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// "socket:[12345]" is how /proc shows a descriptor that is a socket.
std::optional<std::uint64_t> inode_of(std::string_view link) {
  constexpr std::string_view kPrefix = "socket:[";
  if (!link.starts_with(kPrefix) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kPrefix.size());
  link.remove_suffix(1);
  const auto inode = parse_number<std::uint64_t>(link);
  return inode ? std::optional(*inode) : std::nullopt;
}

std::optional<int> number_in(std::string_view environment, std::string_view name) {
  for (std::size_t begin = 0; begin < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', begin), environment.size());
    const std::string_view variable = environment.substr(begin, end - begin);
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      const auto number = parse_number<int>(variable.substr(name.size() + 1));
      return number ? std::optional(*number) : std::nullopt;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

LocalProcess process_in(const fs::path& folder, pid_t pid) {
  std::ifstream file(folder / "environ", std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  return {pid, number_in(environment, "RANK"), number_in(environment, "WORLD_SIZE")};
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    if (const auto pid = parse_number<pid_t>(it->path().filename().string())) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

}  // namespace

Result<std::optional<LocalSocket>> find_local_socket(const tcp::endpoint& own,
                                                     const tcp::endpoint& peer) {
  const tcp::endpoint here = unmapped(own), there = unmapped(peer);
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return Error::from_errno("ask the kernel whose socket a client has (sock_diag)");

  Question question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.body.sdiag_family = here.address().is_v4() ? AF_INET : AF_INET6;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  inet_diag_sockid& id = question.body.id;
  id.idiag_sport = htons(here.port());
  id.idiag_dport = htons(there.port());
  copy_address(here, id.idiag_src);
  copy_address(there, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = static_cast<__u32>(INET_DIAG_NOCOOKIE);

  // The kernel answers within the call that asks.
  alignas(nlmsghdr) std::array<char, 4096> answer;
  ssize_t size = ::send(netlink.get(), &question, sizeof(question), 0);
  if (size >= 0) size = ::recv(netlink.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (size < 0) return Error::from_errno("ask the kernel whose socket a client has (sock_diag)");

  nlmsghdr header;
  if (static_cast<std::size_t>(size) < sizeof(header)) return std::optional<LocalSocket>();
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type == NLMSG_ERROR &&
      static_cast<std::size_t>(size) >= NLMSG_LENGTH(sizeof(int))) {
    int error = 0;
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof(error));
    if (error == -ENOENT) return std::optional<LocalSocket>();
    return Error::from_errno("ask the kernel whose socket a client has (sock_diag)", -error);
  }
  inet_diag_msg found;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      static_cast<std::size_t>(size) < NLMSG_LENGTH(sizeof(found))) {
    return std::optional<LocalSocket>();
  }
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof(found));
  // Where no connection fits, the kernel names a socket that listens at the address.
  // A socket that nobody holds any more has no inode, and its uid means nothing.
  if (found.id.idiag_dport != id.idiag_dport || found.idiag_state == TCP_LISTEN ||
      found.idiag_inode == 0) {
    return std::optional<LocalSocket>();
  }
  return std::optional(LocalSocket{found.idiag_uid, found.idiag_inode});
}

std::unordered_map<std::uint64_t, LocalProcess> processes_of_sockets(
    const std::unordered_set<std::uint64_t>& inodes) {
  std::unordered_map<std::uint64_t, LocalProcess> processes;
  for (const pid_t pid : all_processes()) {
    const fs::path folder = fs::path("/proc") / std::to_string(pid);
    std::optional<LocalProcess> process;
    std::error_code error;
    for (fs::directory_iterator it(folder / "fd", error), end; !error && it != end;
         it.increment(error)) {
      std::error_code gone;
      const auto inode = inode_of(fs::read_symlink(it->path(), gone).string());
      if (gone || !inode || !inodes.contains(*inode)) continue;
      if (!process) process = process_in(folder, pid);
      processes.try_emplace(*inode, *process);
    }
  }
  return processes;
}

}  // namespace distrun
