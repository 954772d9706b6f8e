#include "cli/launch_flags.h"

#include <array>

#include "cli/flags.h"

namespace distrun {

namespace {

using enum FlagWorth;
constexpr bool kVariable = true, kNoVariable = false;
constexpr std::string_view kNoValue;
constexpr const char *kWorkers = "Workers", *kNodes = "Nodes", *kStore = "Store",
                     *kFailures = "Failures", *kOutput = "Output",
                     *kCompatibility = "Compatibility", *kHelp = "Help";

// clang-format off
constexpr auto kFlags = std::to_array<LaunchFlag>({
    {kWorkers, "nproc-per-node", 0, "N", kVariable, kSame, "Workers on this node: a number, cpu (one per core), gpu (one per GPU), or auto (GPUs, else cores)."},
    {kWorkers, "module", 'm', kNoValue, kVariable, kSame, "PROGRAM is a Python module, as in python3 -m."},
    {kWorkers, "no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM itself, even if it is a .py file."},
    {kWorkers, "run-path", 0, kNoValue, kVariable, kSame, "PROGRAM is a Python script, whatever its name."},
    {kWorkers, "virtual-local-rank", 0, kNoValue, kVariable, kSame, "Set LOCAL_RANK to 0 in every worker and CUDA_VISIBLE_DEVICES to one GPU each."},
    {kWorkers, "role", 0, "NAME", kVariable, kSame, "Set ROLE_NAME in the workers."},
    {kWorkers, "dry-run", 0, kNoValue, kNoVariable, kOwn, "Print each worker's command and environment; start nothing."},
    {kNodes, "nnodes", 0, "N", kVariable, kBetter, "Nodes in the run. Start distrun launch on each of them."},
    {kNodes, "node-rank", 0, "N", kVariable, kBetter, "Number of this node, from 0. Node 0 hosts the store."},
    {kNodes, "master-addr", 0, "HOST", kVariable, kBetter, "Address of the store, MASTER_ADDR. With several nodes: node 0's address or name."},
    {kNodes, "master-port", 0, "PORT", kVariable, kBetter, "Port of the store, MASTER_PORT. 0 takes a free port; several nodes use 29500 by default."},
    {kNodes, "rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, "Sets --master-addr and --master-port at once."},
    {kNodes, "rdzv-conf", 0, "LIST", kVariable, kBetter, "timeout=SECONDS: how long nodes wait for each other; 900 by default."},
    {kNodes, "rdzv-id", 0, "ID", kVariable, kBetter, "Name of the run, TORCHELASTIC_RUN_ID; random by default."},
    {kNodes, "local-addr", 0, "ADDRESS", kVariable, kBetter, "Numeric address of this node, for the MASTER_ADDR of its workers."},
    {kNodes, "standalone", 0, kNoValue, kVariable, kSame, "Run one node on a free port, whatever the other flags say."},
    {kStore, "store", 0, "KIND", kVariable, kOwn, "How workers rendezvous: tcp, or file:PATH, which must not exist yet."},
    {kStore, "same-user", 0, kNoValue, kVariable, kOwn, "The store refuses other users and other machines."},
    {kFailures, "max-restarts", 0, "N", kVariable, kBetter, "Restart all workers after a failure, at most N times, each time with a fresh store."},
    {kFailures, "timeout", 0, "SECONDS", kVariable, kOwn, "End the run after this time, with exit status 124."},
    {kFailures, "shutdown-timeout", 0, "SECONDS", kVariable, kBetter, "Time from SIGTERM to SIGKILL when workers are stopped."},
    {kFailures, "signals-to-handle", 0, "LIST", kVariable, kBetter, "Signals that end the run."},
    {kFailures, "forward-signals", 0, "LIST", kVariable, kOwn, "Signals to forward to the workers, such as USR1,USR2."},
    {kOutput, "log-dir", 0, "FOLDER", kVariable, kSame, "Write log files to a new folder in FOLDER. /dev/null writes no files, not even error files."},
    {kOutput, "redirects", 'r', "STREAMS", kVariable, kBetter, "Write to log files only: 1 stdout, 2 stderr, 3 both; or by local rank, such as 0:3,1:2."},
    {kOutput, "tee", 't', "STREAMS", kVariable, kBetter, "Write to log files and the console. Values as for --redirects."},
    {kOutput, "local-ranks-filter", 0, "LIST", kVariable, kSame, "Show only these local ranks on the console, such as 0,2. Log files get all."},
    {kOutput, "duplicate-stdout-filters", 0, "LIST", kVariable, kSame, "Copy teed stdout lines that contain one of these words, such as loss,epoch, to one file."},
    {kOutput, "duplicate-stderr-filters", 0, "LIST", kVariable, kSame, "The same for stderr."},
    {kOutput, "prefix", 0, "TEXT", kVariable, kOwn, "Text before each line on the console; may contain ${role_name} ${rank} ${local_rank} ${host} ${stream} ${time}."},
    {kOutput, "log-line-prefix-template", 0, "TEXT", kVariable, kSame, "The same before teed lines only."},
    {kOutput, "events", 0, "FILE", kVariable, kOwn, "Append the events of the run to FILE, as lines of JSON."},
    {kCompatibility, "rdzv-backend", 0, "NAME", kVariable, kRefused, "static, or c10d with one node."},
    {kCompatibility, "start-method", 0, "NAME", kVariable, kSame, "Ignored: workers are always new programs."},
    {kCompatibility, "monitor-interval", 0, "SECONDS", kVariable, kBetter, "Ignored: distrun notices an exit at once."},
    {kCompatibility, "event-log-handler", 0, "NAME", kVariable, kRefused, "Only null is supported; see --events."},
    {kCompatibility, "logs-specs", 0, "NAME", kNoVariable, kRefused, "Python plug-ins are not supported."},
    {kCompatibility, "numa-binding", 0, "KIND", kNoVariable, kRefused, "Not supported; start PROGRAM with numactl."},
    {kHelp, "help", 'h', kNoValue, kNoVariable, kSame, "Print this help and exit."},
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
