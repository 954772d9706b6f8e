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
    {kWorkers, "nproc-per-node", 0, "N", kVariable, kLimited, "Number of workers on this node: a number, cpu (one per core), gpu (one per GPU) or auto (one per GPU; without GPUs, one per core)."},
    {kWorkers, "module", 'm', kNoValue, kVariable, kSame, "PROGRAM is the name of a Python module, as for python3 -m."},
    {kWorkers, "no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM directly, without Python, even if it is a .py file."},
    {kWorkers, "run-path", 0, kNoValue, kVariable, kBetter, "Run PROGRAM with Python, even if its name does not end with .py."},
    {kWorkers, "virtual-local-rank", 0, kNoValue, kVariable, kSame, "Set LOCAL_RANK to 0 in every worker, and CUDA_VISIBLE_DEVICES to one GPU, a different one for each worker."},
    {kWorkers, "role", 0, "NAME", kVariable, kSame, "Role of the workers: the value of ROLE_NAME, and part of the default prefix of output lines."},
    {kWorkers, "dry-run", 0, kNoValue, kNoVariable, kOwn, "Print the command and the environment variables of each worker, and start nothing."},
    {kNodes, "nnodes", 0, "N", kVariable, kLimited, "Number of nodes in the run. Run distrun launch on each node."},
    {kNodes, "node-rank", 0, "N", kVariable, kBetter, "Rank of this node, from 0 to nnodes - 1. Node 0 hosts the store."},
    {kNodes, "master-addr", 0, "HOST", kVariable, kBetter, "Address of the store, and MASTER_ADDR of the workers. With several nodes, the address or name of node 0 is required. On one node, if HOST is a name, distrun uses 127.0.0.1 instead."},
    {kNodes, "master-port", 0, "PORT", kVariable, kBetter, "Port of the store, and MASTER_PORT of the workers. 0 means a free port, on one node only. The default is 0 on one node and 29500 with several nodes."},
    {kNodes, "rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, "Same as --master-addr HOST --master-port PORT."},
    {kNodes, "rdzv-conf", 0, "LIST", kVariable, kBetter, "Settings KEY=VALUE, separated by commas. timeout=SECONDS (or join_timeout=SECONDS) limits how long nodes wait for each other; the default is 900. The other keys of torchrun have no effect."},
    {kNodes, "rdzv-id", 0, "ID", kVariable, kBetter, "Id of the run, and TORCHELASTIC_RUN_ID of the workers. The default is 'none' in each of these cases: several nodes; a given port; --rdzv-backend c10d. Otherwise, and always with --standalone, it is a random UUID."},
    {kNodes, "local-addr", 0, "ADDRESS", kVariable, kBetter, "Numeric address of the store. It overrides --master-addr. It has no effect in two cases: with several nodes; or if --master-port or --rdzv-endpoint sets the port."},
    {kNodes, "display-map", 0, kNoValue, kVariable, kOwn, "When all nodes have joined, print on node 0 which ranks run on which node."},
    {kNodes, "standalone", 0, kNoValue, kVariable, kBetter, "Run one node, with the store on a free port. --master-addr, --master-port, --rdzv-endpoint and --rdzv-backend have no effect. --nnodes must be 1."},
    {kStore, "store", 0, "KIND", kVariable, kOwn, "Store of the workers: tcp, or file:PATH. The file PATH must not exist, or must be empty."},
    {kStore, "same-user", 0, kNoValue, kVariable, kOwn, "The store accepts only clients on this machine that run as you or as root."},
    {kFailures, "max-restarts", 0, "N", kVariable, kBetter, "After a failure, restart all workers with a new, empty store, at most N times."},
    {kFailures, "timeout", 0, "SECONDS", kVariable, kOwn, "If the run takes longer than this time, print the call stack of each worker and stop the run. The exit status is 124."},
    {kFailures, "hang-after", 0, "SECONDS", kVariable, kOwn, "If no worker makes progress for this time, print the call stack of each worker and stop the run. The exit status is 75. Each of these is progress: a worker prints something, exits, or starts a collective that distrun sees (--collectives); it sends or receives data over TCP, except to or from the store; a key of the store is created or changes its value."},
    {kFailures, "collectives", 0, kNoValue, kVariable, kOwn, "Record the collectives of Python workers, so that distrun names ranks that are missing in one, or that come late to them. The Python package distrun must be installed. C++ workers that link libdistrun record theirs without this flag."},
    {kFailures, "digest", 0, kNoValue, kVariable, kOwn, "Compare the values that the ranks receive in all_reduce, all_gather and broadcast, and name the first collective in which they differ. Includes --collectives."},
    {kFailures, "shutdown-timeout", 0, "SECONDS", kVariable, kBetter, "Time between SIGTERM and SIGKILL when distrun stops workers."},
    {kFailures, "signals-to-handle", 0, "LIST", kVariable, kBetter, "When distrun receives one of these signals, it sends the signal to the workers and stops the run."},
    {kFailures, "forward-signals", 0, "LIST", kVariable, kOwn, "Signals that distrun forwards to the workers without stopping the run, such as USR1,USR2."},
    {kOutput, "log-dir", 0, "FOLDER", kVariable, kSame, "Keep the log files of -r and -t, and the files in which workers report their errors (TORCHELASTIC_ERROR_FILE), in a new folder in FOLDER. Each attempt (the start or a restart) has its own files. With -r or -t, the default is TMPDIR or /tmp; otherwise, distrun keeps no files. /dev/null means no log files and no error files; all output then goes to the console."},
    {kOutput, "redirects", 'r', "STREAMS", kVariable, kBetter, "Write output to log files instead of the console: 1 is stdout, 2 is stderr, 3 is both, 0 is none. LOCAL_RANK:VALUE chooses for one worker: 0:3,1:2 means both streams of local rank 0 and stderr of local rank 1."},
    {kOutput, "tee", 't', "STREAMS", kVariable, kBetter, "Write output to log files and to the console. Takes the same values as --redirects."},
    {kOutput, "local-ranks-filter", 0, "LIST", kVariable, kSame, "Show only these local ranks, such as 0,2, on the console and in the log files of the --duplicate flags. The other log files contain all ranks."},
    {kOutput, "duplicate-stdout-filters", 0, "LIST", kVariable, kSame, "If a stdout line of --tee contains one of these words, also write it to filtered_stdout.log. Example: loss,epoch."},
    {kOutput, "duplicate-stderr-filters", 0, "LIST", kVariable, kSame, "The same for stderr and filtered_stderr.log."},
    {kOutput, "prefix", 0, "TEXT", kVariable, kOwn, "Put TEXT before every line on the console. TEXT can contain ${role_name}, ${rank}, ${local_rank}, ${host} (or ${hostname}), ${stream} and ${time}. Without this flag, a line has the prefix '[${role_name}${local_rank}]:' in two cases: it is also written to a log file because of --tee; or the console is a terminal and shows several workers."},
    {kOutput, "log-line-prefix-template", 0, "TEXT", kVariable, kBetter, "Changes the text of the default prefix, but not which lines have it. It has no effect with --prefix."},
    {kOutput, "html", 0, "FILE", kVariable, kOwn, "Write a report of the run to FILE, for a browser: a timeline with restarts and failures, and the CPU use, memory and output of each rank."},
    {kOutput, "events", 0, "FILE", kVariable, kOwn, "Append the events of the run to FILE, one JSON object per line."},
    {kCompatibility, "rdzv-backend", 0, "NAME", kVariable, kLimited, "static, or c10d on one node. With c10d, the store uses a free port, and --master-addr, --master-port and --rdzv-endpoint have no effect. With several nodes, use static and give each node its --node-rank."},
    {kCompatibility, "start-method", 0, "NAME", kVariable, kBetter, "No effect: distrun starts each worker as a new process with exec."},
    {kCompatibility, "monitor-interval", 0, "SECONDS", kVariable, kBetter, "No effect: distrun notices an exit at once."},
    {kCompatibility, "event-log-handler", 0, "NAME", kVariable, kLimited, "Only null is accepted. To record events, use --events."},
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
