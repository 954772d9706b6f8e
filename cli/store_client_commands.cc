#include "cli/store_client_commands.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <optional>
#include <unordered_set>

#include <CLI/CLI.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/store_status_text.h"
#include "common/text/parse_number.h"
#include "common/units.h"
#include "distrun/store_address.h"
#include "launcher/outcome/run_end.h"
#include "store/network/local_peer.h"
#include "store/network/local_process.h"

namespace distrun {

namespace {

constexpr std::size_t kValueBytesMax = 1 * kGiB;  // No store takes more.
// The least time that a store has for an answer, however short --connect-timeout is.
constexpr std::chrono::milliseconds kReplyTimeout(5000);
constexpr int kExitNotEqual = 1, kExitTimeOut = 3, kExitNoKey = 4;

constexpr const char* kValueHelp =
    R"help(Without VALUE, the value is read from stdin, byte for byte.

Examples:
  distrun store set --store 127.0.0.1:29500 master "$(hostname)"
  distrun store set config < config.json          # the store that DISTRUN_STORE names)help";
constexpr const char* kGetHelp =
    R"help(Prints the value byte for byte, with a newline after it on a terminal.
Exit status: 4 if the key does not exist; 3 if --wait timed out.

Examples:
  master=$(distrun store get --wait master)
  distrun store get config > config.json)help";
constexpr const char* kAddHelp =
    R"help(Prints the sum.  A key that does not exist counts as 0.

Examples:
  rank=$(( $(distrun store add workers 1) - 1 ))
  distrun store add workers -- -1)help";
constexpr const char* kWaitHelp =
    R"help(Exit status: 3 on a timeout; stderr names the missing keys.

Examples:
  distrun store wait --timeout 30 ready/0 ready/1
  distrun store wait --timeout 0 ready/0          # does it exist?)help";
constexpr const char* kCompareSetHelp =
    R"help(Sets KEY to WANTED if its value is EXPECTED; an empty EXPECTED also matches a missing key.
Prints the resulting value.  Exit status: 1 if that is not WANTED, so give each caller its own
WANTED.

Examples:
  distrun store compare-set leader "" "$(hostname):$$" && echo elected)help";
constexpr const char* kDeleteHelp = "Exit status: 4 if the key did not exist.";
constexpr const char* kKeysHelp = "Prints one key a line, sorted.";
constexpr const char* kBarrierHelp =
    R"help(Returns when COUNT clients have called it for KEY.  Use a new KEY for each barrier: a client
that timed out still counts.  Exit status: 3 on a timeout.

Examples:
  distrun store barrier --timeout 60 epoch/1 4)help";
constexpr const char* kStatusHelp =
    R"help(When a run hangs, this shows which rank is missing: who is connected, who waits for what and for
how long, who gave up, who was refused.  Clients on this machine are shown by rank and pid, others
by address.  Works with the store of `distrun store serve` and of `distrun launch`, not with torch's.

Examples:
  distrun store status --store 127.0.0.1:29500)help";

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000);
}

// All of stdin.
Result<std::string> read_stdin() {
  std::string bytes;
  std::array<char, 64 * kKiB> buffer;
  while (true) {
    const auto size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (bytes.size() > kValueBytesMax) {
      return Error{ErrorKind::kInvalidArgument, "the value on stdin is longer than 1 GiB"};
    }
    if (size > 0) {
      bytes.append(buffer.data(), static_cast<std::size_t>(size));
    } else if (size == 0) {
      return bytes;
    } else if (errno != EINTR) {
      return Error::from_errno("read the value from stdin");
    }
  }
}

// The address of the store as the variables have it; nothing where none does.
std::optional<std::string> store_of(const Environment& environment) {
  if (const auto store = environment.get("DISTRUN_STORE"); store && !store->empty()) return *store;
  const auto host = environment.get("MASTER_ADDR"), port = environment.get("MASTER_PORT");
  if (!host || !port || host->empty() || port->empty()) return std::nullopt;
  return (host->find(':') == std::string::npos ? *host : "[" + *host + "]") + ":" + *port;
}

std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(const std::string& address) {
  const auto parsed = parse_store_address(address);
  if (!parsed) return std::nullopt;
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(parsed->host, error);
  if (error) return std::nullopt;
  return boost::asio::ip::tcp::endpoint(ip, parsed->port);
}

// The processes at the other ends of the store's connections, where they run on this machine.
PeerProcesses processes_of(const StoreStatus& status) {
  PeerProcesses processes;
  auto sockets = LocalSockets::open();
  if (!sockets) return processes;  // They are shown by address.
  std::unordered_map<std::string, std::uint64_t> inode_of;
  std::unordered_set<std::uint64_t> inodes;
  for (const auto& peer : status.peers) {
    const auto own = endpoint_of(peer.address), store = endpoint_of(peer.store_address);
    if (!own || !store) continue;
    const auto socket = sockets->find(*own, *store);
    if (!socket || !*socket) continue;
    inode_of[peer.address] = (*socket)->inode;
    inodes.insert((*socket)->inode);
  }
  const auto found = processes_of_sockets(inodes);
  for (const auto& [address, inode] : inode_of) {
    if (const auto process = found.find(inode); process != found.end()) {
      processes.emplace(address, process->second);
    }
  }
  return processes;
}

}  // namespace

StoreClientCommands::StoreClientCommands(CLI::App& store) {
  using Self = StoreClientCommands;
  CLI::App& get =
      add_command(store, "get", "KEY", "Print the value of a key.", kGetHelp, &Self::get);
  get.add_option("KEY", key_)->required();
  add_flag(get, "wait", wait_first_, "Wait for the key, at most --timeout");

  CLI::App& set = add_command(store, "set", "KEY [VALUE]", "Set a key.", kValueHelp, &Self::set);
  set.add_option("KEY", key_)->required();
  set.add_option("VALUE", value_);

  CLI::App& add_to =
      add_command(store, "add", "KEY NUMBER", "Add to a counter.", kAddHelp, &Self::add);
  add_to.add_option("KEY", key_)->required();
  add_to.add_option("NUMBER", number_text_)->required();

  // As an option, a list would have CLI11 take the brackets of [a,b] off.
  add_command(store, "wait", "KEY...", "Wait for keys.", kWaitHelp, &Self::wait).allow_extras();

  CLI::App& compare =
      add_command(store, "compare-set", "KEY EXPECTED WANTED",
                  "Set a key if it has the expected value.", kCompareSetHelp, &Self::compare_set);
  compare.add_option("KEY", key_)->required();
  compare.add_option("EXPECTED", expected_)->required();
  compare.add_option("WANTED", value_)->required();

  CLI::App& remove =
      add_command(store, "delete", "KEY", "Delete a key.", kDeleteHelp, &Self::delete_key);
  remove.add_option("KEY", key_)->required();

  CLI::App& list = add_command(store, "keys", "", "Print all keys.", kKeysHelp, &Self::keys);
  add_flag(list, "null", null_, "End each key with a zero byte, not a newline", "0");

  CLI::App& barrier =
      add_command(store, "barrier", "KEY COUNT", "Wait until all clients are there.", kBarrierHelp,
                  &Self::barrier);
  barrier.add_option("KEY", key_)->required();
  barrier.add_option("COUNT", number_text_)->required();

  CLI::App& status =
      add_command(store, "status", "", "Show who is connected, and who waits for what.",
                  kStatusHelp, &Self::status);
  add_flag(status, "json", json_, "Print the store's answer, as JSON");
}

CLI::App& StoreClientCommands::add_command(CLI::App& store, const std::string& name,
                                           const std::string& usage, const std::string& help,
                                           const std::string& footer, Action act) {
  CLI::App& command = *store.add_subcommand(name, help);
  command.formatter(std::make_shared<HelpFormatter>("distrun store " + name + " [flags]" +
                                                    (usage.empty() ? "" : " ") + usage));
  command.footer(footer);
  add_flag(command, "store HOST:PORT", store_,
           "The store (default $DISTRUN_STORE, or $MASTER_ADDR and $MASTER_PORT)");
  if (act == &StoreClientCommands::get || act == &StoreClientCommands::wait ||
      act == &StoreClientCommands::barrier) {
    add_flag(command, "timeout SECONDS", timeout_, "How long to wait");
  }
  add_flag(command, "connect-timeout SECONDS", connect_timeout_,
           "How long to retry until the store listens, and to wait for an answer");
  if (act != &StoreClientCommands::status) {
    add_flag(command, "raw", raw_, "Do not put the '/' of torch's TCPStore before keys");
  }
  entries_.push_back({&command, act});
  return command;
}

const StoreClientCommands::Entry* StoreClientCommands::chosen() const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return entry.command->parsed(); });
  return found != entries_.end() ? &*found : nullptr;
}

void StoreClientCommands::check(const Environment& environment) {
  if (store_.empty()) {
    const auto store = store_of(environment);
    if (!store) {
      throw CLI::ParseError(
          "no store given; use --store HOST:PORT, or set DISTRUN_STORE, or MASTER_ADDR and "
          "MASTER_PORT",
          kExitUsage);
    }
    store_ = *store;
  }
  auto address = parse_store_address(store_);
  if (!address) throw CLI::ValidationError("--store", address.error().message);
  address_ = std::move(*address);
  wait_for_ = seconds_from("--timeout", timeout_);
  connect_for_ = seconds_from("--connect-timeout", connect_timeout_);
  const Action act = chosen()->act;
  if (act == &StoreClientCommands::wait) keys_ = words_of_wait();
  const bool counts = act == &StoreClientCommands::barrier;
  if (counts || act == &StoreClientCommands::add) {
    const auto number = parse_number<std::int64_t>(
        number_text_, counts ? 1 : std::numeric_limits<std::int64_t>::min());
    if (!number) throw CLI::ValidationError(counts ? "COUNT" : "NUMBER", number.error().message);
    number_ = *number;
  }
}

std::vector<std::string> StoreClientCommands::words_of_wait() const {
  std::vector<std::string> words = chosen()->command->remaining();
  if (words.empty()) throw CLI::RequiredError("KEY");
  for (const auto& word : words) {
    if (word.size() > 1 && word.front() == '-') {
      throw CLI::ParseError("unknown flag " + word, kExitUsage);
    }
  }
  return words;
}

int StoreClientCommands::run(const Environment&, std::ostream& out, std::ostream& err) {
  const Entry& command = *chosen();
  const auto fail = [&](const Error& error) {
    err << "distrun store " << command.command->get_name() << ": " << error.message << '\n';
    return error.kind == ErrorKind::kTimedOut ? kExitTimeOut : kExitInternal;
  };
  // Before the connection: who types a value may take a while.
  if (command.act == &StoreClientCommands::set && command.command->count("VALUE") == 0) {
    auto value = read_stdin();
    if (!value) return fail(value.error());
    value_ = std::move(*value);
  }
  auto store = StoreClient::connect(address_, connect_for_, std::max(connect_for_, kReplyTimeout));
  if (!store) {
    const Error error{ErrorKind::kSystem, store.error().message};  // Not what was waited for.
    return fail(error);
  }
  const auto status = (this->*command.act)(*store, out);
  if (!status) return fail(status.error());
  if (!out.flush()) return fail(Error::from_errno("write to stdout"));
  return *status;
}

std::vector<std::string> StoreClientCommands::on_wire(const std::vector<std::string>& keys) const {
  std::vector<std::string> wire;
  wire.reserve(keys.size());
  for (const auto& key : keys) wire.push_back(on_wire(key));
  return wire;
}

Result<int> StoreClientCommands::get(StoreClient& store, std::ostream& out) {
  if (wait_first_) {
    keys_ = {key_};
    if (const auto came = wait(store, out); !came) return came.error();
  }
  const auto value = store.get(on_wire(key_));
  if (!value) return value.error();
  if (!*value) return kExitNoKey;
  const char* const end = ::isatty(STDOUT_FILENO) != 0 ? "\n" : "";
  out << **value << end;
  return 0;
}

Result<int> StoreClientCommands::set(StoreClient& store, std::ostream&) {
  const auto set = store.set(on_wire(key_), value_);
  if (!set) return set.error();
  return 0;
}

Result<int> StoreClientCommands::add(StoreClient& store, std::ostream& out) {
  const auto sum = store.add(on_wire(key_), number_);
  if (!sum) return sum.error();
  out << *sum << '\n';
  return 0;
}

Result<int> StoreClientCommands::wait(StoreClient& store, std::ostream&) {
  const auto keys = on_wire(keys_);
  const auto came = store.wait(keys, wait_for_);
  if (came) return 0;
  if (came.error().kind != ErrorKind::kTimedOut) return came.error();
  std::string missing;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto there = store.check({keys[i]});
    if (!there) return there.error();
    if (!*there) missing += (missing.empty() ? "" : ", ") + shown_key(keys[i]);
  }
  return Error{
      ErrorKind::kTimedOut,
      fmt::format(
          "timed out after {}; missing keys: {} ('distrun store status' shows who is connected)",
          seconds_text(wait_for_), missing)};
}

Result<int> StoreClientCommands::compare_set(StoreClient& store, std::ostream& out) {
  const auto value = store.compare_set(on_wire(key_), expected_, value_);
  if (!value) return value.error();
  bool holds = *value == value_;
  if (holds && expected_ == value_) {
    // The answer is EXPECTED also where the key is not there.
    const auto there = store.get(on_wire(key_));
    if (!there) return there.error();
    holds = there->has_value();
  }
  out << *value << '\n';
  return holds ? 0 : kExitNotEqual;
}

Result<int> StoreClientCommands::delete_key(StoreClient& store, std::ostream&) {
  const auto deleted = store.delete_key(on_wire(key_));
  if (!deleted) return deleted.error();
  return *deleted ? 0 : kExitNoKey;
}

Result<int> StoreClientCommands::keys(StoreClient& store, std::ostream& out) {
  auto keys = store.keys();
  if (!keys) return keys.error();
  std::sort(keys->begin(), keys->end());
  for (std::string_view key : *keys) {
    if (!raw_) {
      if (!key.starts_with('/')) continue;  // torch's class keeps some for itself.
      key.remove_prefix(1);
    }
    out << key << (null_ ? '\0' : '\n');
  }
  return 0;
}

Result<int> StoreClientCommands::barrier(StoreClient& store, std::ostream&) {
  const auto passed = store.barrier(on_wire(key_), number_, wait_for_);
  if (passed) return 0;
  if (passed.error().kind != ErrorKind::kTimedOut) return passed.error();
  const auto arrived = store.get(on_wire(key_));
  if (!arrived) return arrived.error();
  return Error{ErrorKind::kTimedOut,
               fmt::format("timed out after {}; {} of {} clients arrived ('distrun store status' "
                           "shows who is connected)",
                           seconds_text(wait_for_), shown_key(arrived->value_or("0")), number_)};
}

Result<int> StoreClientCommands::status(StoreClient& store, std::ostream& out) {
  const auto text = store.status();
  if (!text) {
    if (text.error().kind != ErrorKind::kProtocol) return text.error();
    return Error{ErrorKind::kProtocol,
                 address_.text() + " does not tell its status: is it a store of distrun's?"};
  }
  if (json_) {
    out << *text << '\n';
    return 0;
  }
  auto status = store_status_from_json(*text);
  if (!status) return status.error();
  // The one that asks is not of interest.
  const std::string own = store.own_address();
  status->connections -=
      std::erase_if(status->peers, [&](const auto& peer) { return peer.address == own; });
  out << text_of(*status, processes_of(*status));
  return 0;
}

}  // namespace distrun
