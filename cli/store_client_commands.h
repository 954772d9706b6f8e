// `distrun store get|set|add|wait|…`: a store client for shell scripts. Values pass through stdin
// and stdout unchanged.
#pragma once

#include <chrono>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "distrun/store_client.h"

namespace distrun {

class StoreClientCommands : public CliCommand {
 public:
  // Adds the commands to `store`, which must outlive them.
  explicit StoreClientCommands(CLI::App& store);

  bool is_chosen() const override { return chosen() != nullptr; }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  // Returns the exit status.
  using Action = Result<int> (StoreClientCommands::*)(StoreClient& store, std::ostream& out);
  struct Entry {
    CLI::App* command;
    Action act;
  };
  CLI::App& add_command(CLI::App& store, const std::string& name, const std::string& usage,
                        const std::string& help, const std::string& footer, Action act);
  const Entry* chosen() const;

  Result<int> get(StoreClient& store, std::ostream& out);
  Result<int> set(StoreClient& store, std::ostream& out);
  Result<int> add(StoreClient& store, std::ostream& out);
  Result<int> wait(StoreClient& store, std::ostream& out);
  Result<int> compare_set(StoreClient& store, std::ostream& out);
  Result<int> delete_key(StoreClient& store, std::ostream& out);
  Result<int> keys(StoreClient& store, std::ostream& out);
  Result<int> barrier(StoreClient& store, std::ostream& out);
  Result<int> status(StoreClient& store, std::ostream& out);

  std::vector<std::string> words_of_wait() const;
  std::string on_wire(const std::string& key) const { return raw_ ? key : "/" + key; }
  std::vector<std::string> on_wire(const std::vector<std::string>& keys) const;

  std::vector<Entry> entries_;
  StoreAddress address_;
  std::string store_, timeout_ = "300", connect_timeout_ = "10";
  std::chrono::milliseconds wait_for_{0}, connect_for_{0};
  bool raw_ = false;
  // Arguments of single commands.
  std::string key_, value_, expected_, number_text_;
  std::int64_t number_ = 0;
  std::vector<std::string> keys_;
  bool wait_first_ = false, null_ = false, json_ = false;
};

}  // namespace distrun
