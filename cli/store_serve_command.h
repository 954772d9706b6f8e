// `distrun store serve`: runs a store until a signal ends it.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "distrun/store_server.h"

namespace distrun {

class StoreServeCommand : public CliCommand {
 public:
  // Adds the command to `store`, which must outlive it.
  explicit StoreServeCommand(CLI::App& store);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;

  // Prints the address to `out` when it listens, and refused clients to `err`.
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  CLI::App* command_;
  StoreServer::Options options_;
  std::string port_file_;
  // Values that check() parses.
  std::string port_ = "0", listen_fd_;
  std::string max_connections_ = std::to_string(options_.limits.connections_max),
              max_key_ = bytes_text(options_.limits.key_bytes_max),
              max_value_ = bytes_text(options_.limits.value_bytes_max),
              max_unread_ = bytes_text(options_.limits.unread_bytes_max),
              max_memory_ = bytes_text(options_.limits.memory_bytes_max);
};

}  // namespace distrun
