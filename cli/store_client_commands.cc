#include "cli/store_client_commands.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/flags.h"
#include "cli/near_miss.h"
#include "cli/store_status_text.h"
#include "common/text/parse_number.h"
#include "common/units.h"
#include "distrun/store_address.h"
#include "launcher/outcome/run_end.h"
#include "store/network/client_processes.h"
#include "store/protocol/store_wait_text.h"

namespace distrun {

namespace {

constexpr std::size_t kValueBytesMax = 1 * kGiB;  // No store accepts more.
// Time for an answer, even if --connect-timeout is shorter.
constexpr std::chrono::milliseconds kReplyTimeout(5000);
constexpr int kExitNotEqual = 1, kExitTimeOut = 3, kExitNoKey = 4;

constexpr const char* kConnectTimeout =
    "Maximum time to connect to the store. While the store does not listen yet, the command tries "
    "again. Each answer of the store must arrive within the same time, or within 5 seconds if that "
    "is longer.";
constexpr const char* kRawKey =
    "Use KEY as it is. Without this flag, the command puts a '/' before KEY, as PyTorch's TCPStore "
    "does.";
constexpr const char* kRawKeys =
    "Print all keys as they are. Without this flag, the command prints only the keys that begin "
    "with '/', without the '/'. PyTorch's TCPStore puts a '/' before each key.";
constexpr const char* kValueHelp =
    R"help(Without VALUE, the command reads the value from stdin, until the input ends.

Examples:
  distrun store set --store 127.0.0.1:29500 master "$(hostname)"
  distrun store set config < config.json          # in the store that DISTRUN_STORE names)help";
constexpr const char* kGetHelp =
    R"help(Writes the value to stdout.  If stdout is a terminal, a newline follows the value.

Exit status: 4 if the key does not exist, or 3 if --wait timed out.

Examples:
  master=$(distrun store get --wait master)
  distrun store get config > config.json)help";
constexpr const char* kAddHelp =
    R"help(Adds NUMBER to the number in KEY and prints the sum.  A key that does not exist counts as 0.

Examples:
  rank=$(( $(distrun store add workers 1) - 1 ))
  distrun store add workers -- -1)help";
constexpr const char* kWaitHelp =
    R"help(Exit status: 3 if a key still does not exist after --timeout.  stderr then names each missing key.

Examples:
  distrun store wait --timeout 30 ready/0 ready/1
  distrun store wait --timeout 0 ready/0          # does the key exist?)help";
constexpr const char* kCompareSetHelp =
    R"help(If the value of KEY is EXPECTED, sets KEY to DESIRED.  An empty EXPECTED also matches a KEY that
does not exist.  Prints the value that KEY has after the command, or EXPECTED if KEY still does not
exist.

If several clients use the same KEY and EXPECTED, give each client a different DESIRED value.  Then
at most one client changes the value, and the printed value shows which client changed it.

Exit status: 1 if, after the command, KEY does not exist or its value is not DESIRED.

Examples:
  distrun store compare-set leader "" "$(hostname):$$" && echo elected)help";
constexpr const char* kDeleteHelp = "Exit status: 4 if the key does not exist.";
constexpr const char* kKeysHelp = "Prints one key per line, in alphabetical order.";
constexpr const char* kBarrierHelp =
    R"help(Waits until COUNT clients have run this command with the same KEY.  Use a new KEY for each barrier:
the store counts the clients in KEY, including clients that timed out, and never resets the count.

Exit status: 3 if fewer than COUNT clients arrived within --timeout.

Examples:
  distrun store barrier --timeout 60 epoch/1 4)help";
constexpr const char* kStatusHelp =
    R"help(For each client of the store, prints the keys that the client waits for, and how long it has waited.
Also prints clients that timed out, and connections that were refused.  Use the command to find out
why a run hangs.

If a client runs on this machine as your user, the output shows its process id.  If this client is a
worker, the output also shows its rank.  For all other clients, the output shows the address.

The command works with the stores of distrun launch and distrun store serve, but not with the server
of PyTorch's TCPStore.

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

// From the environment variables.
std::optional<std::string> store_of(const Environment& environment) {
  if (const auto store = environment.get("DISTRUN_STORE"); store && !store->empty()) return *store;
  const auto host = environment.get("MASTER_ADDR"), port = environment.get("MASTER_PORT");
  if (!host || !port || host->empty() || port->empty()) return std::nullopt;
  return (host->find(':') == std::string::npos ? *host : "[" + *host + "]") + ":" + *port;
}

}  // namespace

StoreClientCommands::StoreClientCommands(CLI::App& store) {
  using Self = StoreClientCommands;
  CLI::App& get =
      add_command(store, "get", "KEY", "Print the value of a key.", kGetHelp, &Self::get);
  get.add_option("KEY", key_)->required();
  own_flag(get, "wait", wait_first_, "If the key does not exist, wait until the key exists.");

  CLI::App& set =
      add_command(store, "set", "KEY [VALUE]", "Set the value of a key.", kValueHelp, &Self::set);
  set.add_option("KEY", key_)->required();
  set.add_option("VALUE", value_);

  CLI::App& add_to =
      add_command(store, "add", "KEY NUMBER", "Add a number to a counter.", kAddHelp, &Self::add);
  add_to.add_option("KEY", key_)->required();
  add_to.add_option("NUMBER", number_text_)->required();

  // Not an option: CLI11 strips the brackets of a list value [a,b].
  add_command(store, "wait", "KEY...", "Wait until keys exist.", kWaitHelp, &Self::wait)
      .allow_extras();

  CLI::App& compare = add_command(store, "compare-set", "KEY EXPECTED DESIRED",
                                  "Set a key if the key has the expected value.", kCompareSetHelp,
                                  &Self::compare_set);
  compare.add_option("KEY", key_)->required();
  compare.add_option("EXPECTED", expected_)->required();
  compare.add_option("DESIRED", value_)->required();

  CLI::App& remove =
      add_command(store, "delete", "KEY", "Delete a key.", kDeleteHelp, &Self::delete_key);
  remove.add_option("KEY", key_)->required();

  CLI::App& list = add_command(store, "keys", "", "Print all keys.", kKeysHelp, &Self::keys);
  own_flag(list, "null", null_, "Print a zero byte instead of a newline after each key.", "0");

  CLI::App& barrier =
      add_command(store, "barrier", "KEY COUNT", "Wait for other clients at a barrier.",
                  kBarrierHelp, &Self::barrier);
  barrier.add_option("KEY", key_)->required();
  barrier.add_option("COUNT", number_text_)->required();

  CLI::App& status = add_command(store, "status", "",
                                 "Show the clients of a store and the keys that they wait for.",
                                 kStatusHelp, &Self::status);
  own_flag(status, "json", json_, "Print the status as JSON.");
  for (const Entry& entry : entries_) add_help_flag(*entry.command);
}

CLI::App& StoreClientCommands::add_command(CLI::App& store, const std::string& name,
                                           const std::string& usage, const std::string& help,
                                           const std::string& footer, Action act) {
  CLI::App& command = *store.add_subcommand(name, help);
  command.formatter(std::make_shared<HelpFormatter>("distrun store " + name + " [flags]" +
                                                    (usage.empty() ? "" : " ") + usage));
  command.footer(footer);
  own_flag(command, "store", store_,
           "Address of the store. The default is the value of DISTRUN_STORE. If DISTRUN_STORE is "
           "not set, the default is MASTER_ADDR and MASTER_PORT.")
      ->type_name("HOST:PORT");
  const bool has_timeout = act == &StoreClientCommands::get || act == &StoreClientCommands::wait ||
                           act == &StoreClientCommands::barrier;
  if (has_timeout) {
    own_flag(command, "timeout", timeout_,
             act == &StoreClientCommands::get ? "With --wait: maximum time to wait for the key."
                                              : "Maximum time to wait.")
        ->type_name("SECONDS");
  }
  own_flag(command, "connect-timeout", connect_timeout_,
           has_timeout ? std::string(kConnectTimeout) +
                             " While the command waits for keys or clients, only --timeout applies."
                       : kConnectTimeout)
      ->type_name("SECONDS");
  if (act != &StoreClientCommands::status) {
    own_flag(command, "raw", raw_, act == &StoreClientCommands::keys ? kRawKeys : kRawKey);
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
          "no store was given; use --store HOST:PORT, or set DISTRUN_STORE, or set MASTER_ADDR "
          "and MASTER_PORT",
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
      throw CLI::ParseError(unknown_flag(*chosen()->command, word), kExitUsage);
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
  // Before connecting, because typing a value may take a while.
  if (command.act == &StoreClientCommands::set && command.command->count("VALUE") == 0) {
    auto value = read_stdin();
    if (!value) return fail(value.error());
    value_ = std::move(*value);
  }
  auto store = StoreClient::connect(address_, connect_for_, std::max(connect_for_, kReplyTimeout));
  if (!store) {
    const Error error{ErrorKind::kSystem, store.error().message};  // Not exit status 3.
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
      fmt::format("timed out after {}; not set: {} ('distrun store status' shows the connected "
                  "clients)",
                  seconds_text(wait_for_), missing)};
}

Result<int> StoreClientCommands::compare_set(StoreClient& store, std::ostream& out) {
  const auto value = store.compare_set(on_wire(key_), expected_, value_);
  if (!value) return value.error();
  bool holds = *value == value_;
  if (holds && expected_ == value_) {
    // The answer is EXPECTED even if the key does not exist.
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
      if (!key.starts_with('/')) continue;  // torch's TCPStore uses other keys internally.
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
  return Error{
      ErrorKind::kTimedOut,
      fmt::format("timed out after {}; {} of {} clients arrived ('distrun store status' shows the "
                  "connected clients)",
                  seconds_text(wait_for_), shown_key(arrived->value_or("0")), number_)};
}

Result<int> StoreClientCommands::status(StoreClient& store, std::ostream& out) {
  const auto text = store.status();
  if (!text) {
    if (text.error().kind != ErrorKind::kProtocol) return text.error();
    return Error{ErrorKind::kProtocol,
                 address_.text() + " does not report a status; only stores of distrun do"};
  }
  if (json_) {
    out << *text << '\n';
    return 0;
  }
  auto status = store_status_from_json(*text);
  if (!status) return status.error();
  // Do not count this command itself.
  const std::string own = store.own_address();
  status->connections -=
      std::erase_if(status->peers, [&](const auto& peer) { return peer.address == own; });
  out << text_of(*status, processes_of(*status));
  return 0;
}

}  // namespace distrun
