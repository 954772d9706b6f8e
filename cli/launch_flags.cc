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
    {kWorkers, "nproc-per-node", 0, "N", kVariable, kLimited, "Number of workers on this node, or cpu (one per core), gpu (one per GPU), or auto (one per GPU; without GPUs, one per core)."},
    {kWorkers, "module", 'm', kNoValue, kVariable, kSame, "PROGRAM is the name of a Python module, as for python3 -m."},
    {kWorkers, "no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM directly, without Python, even if it is a .py file."},
    {kWorkers, "run-path", 0, kNoValue, kVariable, kBetter, "Run PROGRAM with Python, even if its name does not end with .py."},
    {kWorkers, "virtual-local-rank", 0, kNoValue, kVariable, kSame, "Set LOCAL_RANK to 0 in every worker, and CUDA_VISIBLE_DEVICES to one GPU, a different one for each worker."},
    {kWorkers, "role", 0, "NAME", kVariable, kSame, "Role of the workers. distrun sets ROLE_NAME to it, and the default prefix of output lines contains it."},
    {kWorkers, "dry-run", 0, kNoValue, kNoVariable, kOwn, "Print the command and the variables of each worker. Start nothing."},
    {kNodes, "nnodes", 0, "N", kVariable, kLimited, "Number of nodes in the run. Run distrun launch on each node."},
    {kNodes, "node-rank", 0, "N", kVariable, kBetter, "Rank of this node, from 0 to nnodes - 1. Node 0 hosts the store."},
    {kNodes, "master-addr", 0, "HOST", kVariable, kBetter, "Address of the store, and MASTER_ADDR of the workers. With several nodes, the address or name of node 0 is required."},
    {kNodes, "master-port", 0, "PORT", kVariable, kBetter, "Port of the store, and MASTER_PORT of the workers. 0 chooses a free port. With several nodes, the default is 29500."},
    {kNodes, "rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, "Same as --master-addr HOST --master-port PORT. With --rdzv-backend c10d, it has no effect."},
    {kNodes, "rdzv-conf", 0, "LIST", kVariable, kBetter, "Settings KEY=VALUE, separated by commas. timeout=SECONDS limits how long nodes wait for each other (default: 900). torchrun's other keys have no effect."},
    {kNodes, "rdzv-id", 0, "ID", kVariable, kBetter, "Id of the run, and TORCHELASTIC_RUN_ID of the workers. The default is 'none' if --nnodes is more than 1, a port is given or --rdzv-backend is c10d; otherwise it is a random UUID."},
    {kNodes, "local-addr", 0, "ADDRESS", kVariable, kBetter, "Numeric address of the store. It overrides --master-addr if --nnodes is 1 and no port is given; otherwise it has no effect."},
    {kNodes, "display-map", 0, kNoValue, kVariable, kOwn, "When all nodes have joined, print on node 0 which ranks run on which node."},
    {kNodes, "standalone", 0, kNoValue, kVariable, kBetter, "Run one node, with the store on a free port. --master-addr, --master-port, --rdzv-endpoint and --rdzv-backend have no effect. --nnodes must be 1."},
    {kStore, "store", 0, "KIND", kVariable, kOwn, "Store of the workers: tcp, or file:PATH for a file that does not exist or is empty."},
    {kStore, "same-user", 0, kNoValue, kVariable, kOwn, "The store accepts only clients on this machine that run as you or as root."},
    {kFailures, "max-restarts", 0, "N", kVariable, kBetter, "After a failure, restart all workers with a new, empty store, at most N times."},
    {kFailures, "timeout", 0, "SECONDS", kVariable, kOwn, "Stop the run after this time, and print where each worker was. The exit status is 124."},
    {kFailures, "hang-after", 0, "SECONDS", kVariable, kOwn, "Stop the run if no worker makes progress for this time, and print where each worker was. Progress is output, data that is sent or received over TCP, or a new value in the store. The exit status is 75."},
    {kFailures, "shutdown-timeout", 0, "SECONDS", kVariable, kBetter, "Time between SIGTERM and SIGKILL when distrun stops workers."},
    {kFailures, "signals-to-handle", 0, "LIST", kVariable, kBetter, "When distrun receives one of these signals, it sends the signal to the workers and stops the run."},
    {kFailures, "forward-signals", 0, "LIST", kVariable, kOwn, "Signals that distrun forwards to the workers without stopping the run, such as USR1,USR2."},
    {kOutput, "log-dir", 0, "FOLDER", kVariable, kSame, "Keep the log files and error files of the run in a new folder in FOLDER. Each attempt (a start or a restart) has its own files. With -r or -t, the default is TMPDIR or /tmp. With /dev/null, distrun writes no file."},
    {kOutput, "redirects", 'r', "STREAMS", kVariable, kBetter, "Write output to log files instead of the console: 1 is stdout, 2 is stderr, 3 is both, 0 is none. 0:3,1:2 chooses by local rank."},
    {kOutput, "tee", 't', "STREAMS", kVariable, kBetter, "Write output to log files and to the console. Takes the same values as --redirects."},
    {kOutput, "local-ranks-filter", 0, "LIST", kVariable, kSame, "Show only these local ranks on the console, such as 0,2. Log files contain all ranks."},
    {kOutput, "duplicate-stdout-filters", 0, "LIST", kVariable, kSame, "With --tee: also write to filtered_stdout.log each stdout line that contains one of these words. Example: loss,epoch."},
    {kOutput, "duplicate-stderr-filters", 0, "LIST", kVariable, kSame, "The same for stderr, to filtered_stderr.log."},
    {kOutput, "prefix", 0, "TEXT", kVariable, kOwn, "Put TEXT before every line on the console. TEXT can contain ${role_name}, ${rank}, ${local_rank}, ${host} (or ${hostname}), ${stream} and ${time}. Without this flag, lines of --tee have the prefix '[${role_name}${local_rank}]:'; on a terminal, all lines have it if more than one worker is shown."},
    {kOutput, "log-line-prefix-template", 0, "TEXT", kVariable, kBetter, "Replaces the default prefix. Lines that have no prefix by default stay without one. --prefix overrides it."},
    {kOutput, "html", 0, "FILE", kVariable, kOwn, "Write a report of the run to FILE, to read in a browser: a timeline with restarts and failures, and the CPU use, memory and output of each rank."},
    {kOutput, "events", 0, "FILE", kVariable, kOwn, "Append the events of the run to FILE, one JSON object per line."},
    {kCompatibility, "rdzv-backend", 0, "NAME", kVariable, kLimited, "static, or c10d with one node only. With several nodes, give each node its --node-rank."},
    {kCompatibility, "start-method", 0, "NAME", kVariable, kBetter, "No effect: distrun always starts workers as new programs."},
    {kCompatibility, "monitor-interval", 0, "SECONDS", kVariable, kBetter, "No effect: distrun notices an exit at once."},
    {kCompatibility, "event-log-handler", 0, "NAME", kVariable, kLimited, "Only null is accepted. Use --events."},
    {kCompatibility, "logs-specs", 0, "NAME", kNoVariable, kLimited, "Rejected: Python plug-ins are not supported."},
    {kCompatibility, "numa-binding", 0, "KIND", kNoVariable, kLimited, "Rejected. Instead, run a script that calls numactl with the NUMA node for $LOCAL_RANK."},
    {kCompatibility, "print-completion", 0, "SHELL", kNoVariable, kLimited, "Print the completion script for bash or zsh, and exit."},
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
    case kLimited:
      return "limited";
    case kOwn:
      return "own";
  }
  return "";
}

}  // namespace distrun
