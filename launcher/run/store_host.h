// StoreHost provides the store of a run: the server, or the file of `--store file:`. On other nodes
// than node 0, which has the server, it does nothing.
//
//     StoreHost store(io, plan, file);
//     if (auto opened = store.open(take_node, check_key); !opened) return opened.error();
//     store.set_place(place);          // the port or the URL for the workers' environment
//     …
//     store.start_over();              // for the next attempt
//     store.close();
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/worker_environment.h"
#include "launcher/run/store_file.h"
#include "store/network/client_processes.h"
#include "store/server/store_server_internals.h"

namespace distrun {

class StoreHost {
 public:
  // `file` is null unless the store is a file.
  StoreHost(boost::asio::io_context& io, const LaunchPlan& plan, StoreFile* file);

  // Starts the server. `take_node` gets the connections of other nodes, `check_key` the keys of
  // clients.
  Result<void> open(StoreServerInternals::TakeNode take_node,
                    StoreServerInternals::CheckKey check_key);

  // Empties the store. Requires that no worker of the previous attempt runs.
  Result<void> start_over();

  // Writes the store's port or URL into `place`.
  void set_place(RunPlace& place) const;

  // The store's address or URL, for messages.
  std::string text() const;

  // Why nodes on other machines cannot join, for messages; empty if they can.
  std::string hint_on_nodes() const;

  // Why the server refused clients: the last few, latest first.
  std::vector<std::string> refusals() const;

  // How often a value in the store has changed; 0 if the server is elsewhere.
  std::uint64_t changes() const;

  // What local processes wait for in the store, such as "for ready/3".
  WaitsOfProcesses waits() const;

  void close() { server_.reset(); }

 private:
  boost::asio::io_context& io_;
  const LaunchOptions& options_;
  StoreFile* file_;
  std::unique_ptr<StoreServer> server_;
};

}  // namespace distrun
