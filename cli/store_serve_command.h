// `distrun store serve`: a store by itself, until a signal ends it.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "store/server.h"

namespace distrun {

class StoreServeCommand : public CliCommand {
 public:
  // Adds the command to `store`, which must outlive it.
  explicit StoreServeCommand(CLI::App& store);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;

  // Prints the address to `out` when it listens, and to `err` which clients it has refused.
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  CLI::App* command_;
  StoreServer::Options options_;
  StoreLimits limits_;
  std::string port_file_;
  // Flags whose text needs a second look.
  std::string port_ = "0", listen_fd_;
  std::string max_connections_ = "16384", max_key_ = "8K", max_value_ = "8M", max_unread_ = "16M",
              max_memory_ = "4G";
};

}  // namespace distrun
