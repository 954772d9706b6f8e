#include "launcher/nodes/listen_address.h"

#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/os/host_name.h"
#include "launcher/nodes/name_look_up.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

bool is_of_this_machine(asio::io_context& io, const asio::ip::address& address) {
  error_code error;
  tcp::acceptor probe(io);
  const tcp::endpoint endpoint(address, 0);
  probe.open(endpoint.protocol(), error);
  if (!error) probe.bind(endpoint, error);
  return !error;
}

Error not_here(const std::string& flag, const std::string& host,
               const std::vector<std::string>& addresses) {
  const std::string what =
      addresses.size() == 1 && addresses.front() == host
          ? fmt::format("{} {} is not an address of this machine", flag, host)
          : fmt::format("{} {} is another machine, {}", flag, host, fmt::join(addresses, ", "));
  return {ErrorKind::kSystem, what + "; start node 0 (--node-rank 0) on the machine that has it"};
}

// nullopt after `timeout`.
std::optional<Result<ResolvedAddresses>> look_up_for(std::chrono::milliseconds timeout,
                                                     const std::string& host) {
  asio::io_context io;
  std::optional<Result<ResolvedAddresses>> found;
  const NameLookUp look_up(io, host, 0,
                           [&](Result<ResolvedAddresses> result) { found = std::move(result); });
  io.run_for(timeout);
  return found;
}

}  // namespace

Result<std::string> listen_address(const std::string& flag, const std::string& host,
                                   std::chrono::milliseconds timeout) {
  asio::io_context io;
  error_code not_numeric;
  const auto numeric = asio::ip::make_address(host, not_numeric);
  if (!not_numeric) {
    if (is_of_this_machine(io, numeric)) return host;
    return not_here(flag, host, {host});
  }

  auto found = look_up_for(timeout, host);
  if (found && !*found && host.starts_with(host_name() + '.')) {
    if (auto own = look_up_for(timeout, host_name()); own && *own) found = std::move(own);
  }
  if (!found) {
    return Error{ErrorKind::kTimedOut,
                 fmt::format("{} {}: looking up the name timed out", flag, host)};
  }
  if (!*found) return found->error().with_context(flag);

  bool loops_back = false;
  std::vector<std::string> addresses;
  for (const tcp::endpoint& endpoint : found->value()) {
    const auto address = endpoint.address();
    addresses.push_back(address.to_string());
    if (!is_of_this_machine(io, address)) continue;
    if (!address.is_loopback()) return address.to_string();
    loops_back = true;
  }
  if (!loops_back) return not_here(flag, host, addresses);
  const auto any = asio::ip::address_v6::any();
  return is_of_this_machine(io, any) ? any.to_string() : "0.0.0.0";
}

}  // namespace distrun
