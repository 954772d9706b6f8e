#include "launcher/run/store_host.h"

#include <chrono>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "distrun/store_address.h"
#include "launcher/nodes/listen_address.h"

namespace distrun {

StoreHost::StoreHost(boost::asio::io_context& io, const LaunchPlan& plan, StoreFile* file)
    : io_(io), options_(plan.options), file_(file) {}

Result<void> StoreHost::open(StoreServerInternals::TakeNode take_node,
                             StoreServerInternals::CheckKey check_key) {
  if (file_ != nullptr || options_.node_rank > 0) return {};
  std::string host = options_.master_addr;
  if (options_.nnodes > 1) {
    auto found = listen_address(options_.address_flag, host, std::chrono::seconds(10));
    if (!found) return found.error();
    host = std::move(*found);
  }
  auto server = StoreServerInternals::listen(
      io_, {.host = host, .port = options_.master_port, .same_user = options_.same_user},
      std::move(take_node), std::move(check_key));
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

Result<void> StoreHost::start_over() {
  if (file_ != nullptr) return file_->start_over();
  if (server_) server_->start_over();
  return {};
}

void StoreHost::set_place(RunPlace& place) const {
  if (file_ != nullptr) {
    place.init_method = file_->url();
  } else {
    place.store_port = server_ ? server_->port() : options_.master_port;
  }
}

std::string StoreHost::text() const {
  if (file_ != nullptr) return file_->url();
  if (server_) return server_->address();
  return StoreAddress{options_.master_addr, options_.master_port}.text();
}

std::string StoreHost::hint_on_nodes() const {
  if (!server_) return "";
  constexpr const char* kHere = ": every node must run on this machine)";
  boost::system::error_code error;
  const auto place = parse_store_address(server_->address());
  if (place && boost::asio::ip::make_address(place->host, error).is_loopback()) {
    return std::string(" (a loopback address") + kHere;
  }
  // The server listens on all addresses, but each node looks for it on its own machine.
  if (options_.master_addr == "localhost") return std::string(" (--master-addr localhost") + kHere;
  return "";
}

std::vector<std::string> StoreHost::refusals() const {
  std::vector<std::string> reasons;
  if (!server_) return reasons;
  for (auto& closed : server_->status().closed) reasons.push_back(closed.reason);
  return reasons;
}

std::uint64_t StoreHost::changes() const {
  return server_ ? StoreServerInternals::table(*server_).changes() : 0;
}

WaitsOfProcesses StoreHost::waits() const {
  if (!server_ || StoreServerInternals::table(*server_).waiting_count() == 0) return {};
  return waits_of(server_->status());
}

}  // namespace distrun
