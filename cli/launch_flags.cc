#include "cli/launch_flags.h"

#include <array>

#include "cli/flags.h"

namespace distrun {

namespace {

using enum FlagWorth;
constexpr bool kVariable = true, kNoVariable = false;
constexpr std::string_view kNone, kWorkers = "Workers", kNodes = "Nodes", kStore = "Store",
                                  kFailures = "Failures and signals", kOutput = "Output",
                                  kCompatibility = "Compatibility with torchrun";

// clang-format off
constexpr auto kFlags = std::to_array<LaunchFlag>({
    {"nproc-per-node", 0, "N", kVariable, kSame, kWorkers, "Workers on this node: a number, cpu, gpu or auto"},
    {"module", 'm', kNone, kVariable, kSame, kWorkers, "Run PROGRAM as a Python module, like python3 -m"},
    {"no-python", 0, kNone, kVariable, kSame, kWorkers, "Execute PROGRAM directly, even if it is a .py file"},
    {"run-path", 0, kNone, kVariable, kSame, kWorkers, "Run PROGRAM with Python, whatever its name"},
    {"role", 0, "NAME", kVariable, kSame, kWorkers, "ROLE_NAME of the workers"},
    {"virtual-local-rank", 0, kNone, kVariable, kSame, kWorkers, "Give each worker one GPU, and LOCAL_RANK 0"},

    {"nnodes", 0, "N", kVariable, kBetter, kNodes, "Number of nodes; start distrun on each of them"},
    {"node-rank", 0, "N", kVariable, kBetter, kNodes, "This node's rank, from 0"},
    {"master-addr", 0, "HOST", kVariable, kBetter, kNodes, "Address of node 0; its store listens there"},
    {"master-port", 0, "PORT", kVariable, kBetter, kNodes, "Port of the store; 0: a free one, or 29500 with several nodes"},
    {"local-addr", 0, "ADDRESS", kVariable, kBetter, kNodes, "Numeric address of this node, for its workers' MASTER_ADDR"},
    {"standalone", 0, kNone, kVariable, kSame, kNodes, "Run one node on a free port, whatever other flags say"},
    {"rdzv-backend", 0, "NAME", kVariable, kRefused, kNodes, "static; c10d with one node only"},
    {"rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, kNodes, "Short for --master-addr and --master-port"},
    {"rdzv-id", 0, "ID", kVariable, kBetter, kNodes, "TORCHELASTIC_RUN_ID; random if not given"},
    {"rdzv-conf", 0, "KEY=VALUE,...", kVariable, kBetter, kNodes, "timeout=SECONDS: how long nodes wait for each other (default 900)"},

    {"store", 0, "STORE", kVariable, kOwn, kStore, "Where workers meet: tcp, or file:PATH for a new file"},
    {"same-user", 0, kNone, kVariable, kOwn, kStore, "Refuse clients of other users and of other machines"},

    {"max-restarts", 0, "N", kVariable, kBetter, kFailures, "Restart a failed run up to N times, each with a fresh store"},
    {"timeout", 0, "SECONDS", kVariable, kOwn, kFailures, "Stop the run after this time, with exit status 124"},
    {"shutdown-timeout", 0, "SECONDS", kVariable, kBetter, kFailures, "Time between SIGTERM and SIGKILL"},
    {"signals-to-handle", 0, "SIGNALS", kVariable, kBetter, kFailures, "Signals that end the run"},
    {"forward-signals", 0, "SIGNALS", kVariable, kOwn, kFailures, "Signals that distrun passes on to the workers: USR1,USR2"},

    {"log-dir", 0, "DIR", kVariable, kSame, kOutput, "Keep log files in a new folder under DIR; /dev/null: keep none"},
    {"redirects", 'r', "STREAMS", kVariable, kBetter, kOutput, "Write to files, not the console: 1 stdout, 2 stderr, 3 both; by local rank: 0:3,1:2"},
    {"tee", 't', "STREAMS", kVariable, kBetter, kOutput, "Write to files and to the console; values as for --redirects"},
    {"local-ranks-filter", 0, "RANKS", kVariable, kSame, kOutput, "Show only these local ranks on the console: 0,2"},
    {"duplicate-stdout-filters", 0, "WORDS", kVariable, kSame, kOutput, "Copy teed stdout lines with one of these words to one file: loss,epoch"},
    {"duplicate-stderr-filters", 0, "WORDS", kVariable, kSame, kOutput, "The same for stderr"},
    {"prefix", 0, "TEXT", kVariable, kOwn, kOutput, "Begin each console line with TEXT: ${rank}, ${local_rank}, ${role_name}, ${host}, ${stream}, ${time}"},
    {"log-line-prefix-template", 0, "TEXT", kVariable, kSame, kOutput, "The same for teed lines only, as in torchrun 2.14"},
    {"events", 0, "FILE", kVariable, kOwn, kOutput, "Append the run's events to FILE, as JSON lines"},
    {"dry-run", 0, kNone, kNoVariable, kOwn, kOutput, "Print each worker's command and variables; start nothing"},
    {"help", 'h', kNone, kNoVariable, kSame, kOutput, "Show this help"},

    {"start-method", 0, "NAME", kVariable, kSame, kCompatibility, "Ignored: distrun always executes programs"},
    {"monitor-interval", 0, "SECONDS", kVariable, kBetter, kCompatibility, "Ignored: distrun notices an exit at once"},
    {"event-log-handler", 0, "NAME", kVariable, kRefused, kCompatibility, "Only null"},
    {"logs-specs", 0, "NAME", kNoVariable, kRefused, kCompatibility, "Not supported: a Python plug-in"},
    {"numa-binding", 0, "MODE", kNoVariable, kRefused, kCompatibility, "Not supported yet"},
});
// clang-format on

}  // namespace

std::span<const LaunchFlag> launch_flags() { return kFlags; }

std::string variable_of(const LaunchFlag& flag) {
  return flag.has_variable ? pet_variable(std::string(flag.name)) : "";
}

std::string_view text_of(FlagWorth worth) {
  switch (worth) {
    case kSame:
      return "same";
    case kBetter:
      return "better";
    case kRefused:
      return "refused";
    case kOwn:
      return "own";
  }
  return "";
}

}  // namespace distrun
