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
    {kWorkers, "module", 'm', kNoValue, kVariable, kSame, "Treat PROGRAM as the name of a Python module, as python3 -m does."},
    {kWorkers, "no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM directly, without Python, even if PROGRAM ends with .py."},
    {kWorkers, "run-path", 0, kNoValue, kVariable, kBetter, "Run PROGRAM with Python, even if PROGRAM does not end with .py."},
    {kWorkers, "virtual-local-rank", 0, kNoValue, kVariable, kSame, "Set LOCAL_RANK to 0 in every worker, and set CUDA_VISIBLE_DEVICES to a different GPU for each worker."},
    {kWorkers, "role", 0, "NAME", kVariable, kSame, "Role of the workers. NAME is the value of ROLE_NAME, and part of the default prefix of output lines."},
    {kWorkers, "dry-run", 0, kNoValue, kNoVariable, kOwn, "Print the command of each worker and the environment variables that distrun sets or removes. Start no worker."},
    {kNodes, "nnodes", 0, "N", kVariable, kLimited, "Number of nodes (machines) in the run. Start distrun launch on each node."},
    {kNodes, "node-rank", 0, "N", kVariable, kBetter, "Rank of this node, from 0 to nnodes - 1. Node 0 hosts the store."},
    {kNodes, "master-addr", 0, "HOST", kVariable, kBetter, "Address of the store, and value of MASTER_ADDR in the workers. With several nodes, give the address or the name of node 0. On one node, distrun replaces a name by 127.0.0.1."},
    {kNodes, "master-port", 0, "PORT", kVariable, kBetter, "Port of the store, and value of MASTER_PORT in the workers. On one node, 0 means a free port and is the default. With several nodes, the default is 29500."},
    {kNodes, "rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, "Same as --master-addr HOST --master-port PORT."},
    {kNodes, "rdzv-conf", 0, "LIST", kVariable, kBetter, "Settings KEY=VALUE, separated by commas. timeout=SECONDS or join_timeout=SECONDS is the longest time that nodes wait for each other at the start. The default is 900. torchrun's other keys have no effect."},
    {kNodes, "rdzv-id", 0, "ID", kVariable, kBetter, "Id of the run, and value of TORCHELASTIC_RUN_ID in the workers. The default is 'none' with several nodes, with a given port, and with --rdzv-backend c10d. In all other cases, and always with --standalone, the default is a random UUID."},
    {kNodes, "local-addr", 0, "ADDRESS", kVariable, kBetter, "Numeric address of the store, instead of --master-addr. The flag has no effect with several nodes, or if --master-port or --rdzv-endpoint sets the port."},
    {kNodes, "display-map", 0, kNoValue, kVariable, kOwn, "When all nodes have joined, node 0 prints which ranks run on which node."},
    {kNodes, "standalone", 0, kNoValue, kVariable, kBetter, "Run one node, with the store on a free port. --master-addr, --master-port, --rdzv-endpoint and --rdzv-backend have no effect. --nnodes must be 1."},
    {kStore, "store", 0, "KIND", kVariable, kOwn, "Kind of the store: tcp, or file:PATH for a store in the file PATH. PATH must not exist, or must be an empty file."},
    {kStore, "same-user", 0, kNoValue, kVariable, kOwn, "The store accepts only clients on this machine that run as your user or as root."},
    {kFailures, "max-restarts", 0, "N", kVariable, kBetter, "After a failure, restart all workers with a new, empty store, at most N times."},
    {kFailures, "timeout", 0, "SECONDS", kVariable, kOwn, "If the run takes longer than this time, print the call stack of each worker and stop the run with exit status 124. Without this flag, there is no limit."},
    {kFailures, "hang-after", 0, "SECONDS", kVariable, kOwn, "If no worker makes progress for this time, print the call stack of each worker and stop the run with exit status 75. Without this flag, there is no limit. A worker makes progress when it prints something, exits, sends or receives data over TCP, or starts a collective that distrun records (--collectives). Of the traffic with the store, only creating a key or changing its value is progress."},
    {kFailures, "collectives", 0, kNoValue, kVariable, kOwn, "Record the collectives of Python workers. distrun can then name ranks that do not enter a collective, or that are often late. The Python package distrun must be installed. C++ workers that link libdistrun record their collectives without this flag."},
    {kFailures, "digest", 0, kNoValue, kVariable, kOwn, "Compare the values that the ranks receive in all_reduce, all_gather and broadcast, and name the first collective in which the values differ. This flag includes --collectives."},
    {kFailures, "shutdown-timeout", 0, "SECONDS", kVariable, kBetter, "Time between SIGTERM and SIGKILL when distrun stops workers."},
    {kFailures, "signals-to-handle", 0, "LIST", kVariable, kBetter, "Signals that stop the run, separated by commas. distrun sends the same signal to the workers."},
    {kFailures, "forward-signals", 0, "LIST", kVariable, kOwn, "Signals that distrun forwards to the workers without stopping the run, separated by commas, such as USR1,USR2."},
    {kOutput, "log-dir", 0, "FOLDER", kVariable, kSame, "Create a new folder in FOLDER, for the log files of -r and -t, and for the files in which workers report errors (TORCHELASTIC_ERROR_FILE). The first start and each restart have their own files. Without this flag, -r and -t use TMPDIR or /tmp. Without all three flags, distrun keeps no files. If FOLDER is /dev/null, distrun writes neither log files nor error files, and all output goes to the console."},
    {kOutput, "redirects", 'r', "STREAMS", kVariable, kBetter, "Write output to log files instead of the console. STREAMS is 1 for stdout, 2 for stderr, 3 for both, and 0 for none. LOCAL_RANK:STREAMS applies to one worker: 0:3,1:2 means both streams of local rank 0 and stderr of local rank 1."},
    {kOutput, "tee", 't', "STREAMS", kVariable, kBetter, "Write output to log files and to the console. STREAMS has the same form as for --redirects."},
    {kOutput, "local-ranks-filter", 0, "LIST", kVariable, kSame, "Show only the output of these local ranks, such as 0,2, on the console and in the log files of the --duplicate flags. All other log files contain the output of all ranks."},
    {kOutput, "duplicate-stdout-filters", 0, "LIST", kVariable, kSame, "Words, separated by commas, such as loss,epoch. distrun also writes each stdout line of --tee that contains one of these words to filtered_stdout.log."},
    {kOutput, "duplicate-stderr-filters", 0, "LIST", kVariable, kSame, "Same as --duplicate-stdout-filters, but for stderr and filtered_stderr.log."},
    {kOutput, "prefix", 0, "TEXT", kVariable, kOwn, "Put TEXT before every line on the console. TEXT can contain ${role_name}, ${rank}, ${local_rank}, ${host} (or ${hostname}), ${stream} and ${time}. Without this flag, lines of --tee have the prefix '[${role_name}${local_rank}]:'. If the console is a terminal and shows several workers, all lines have this prefix."},
    {kOutput, "log-line-prefix-template", 0, "TEXT", kVariable, kBetter, "Replace the text of the default prefix by TEXT. With --prefix, this flag has no effect."},
    {kOutput, "html", 0, "FILE", kVariable, kOwn, "Write an HTML report of the run to FILE. The report shows a timeline with restarts and failures, and the CPU use, memory and output of each rank."},
    {kOutput, "events", 0, "FILE", kVariable, kOwn, "Append the events of the run to FILE, one JSON object per line."},
    {kCompatibility, "rdzv-backend", 0, "NAME", kVariable, kLimited, "NAME is static or, on one node only, c10d. With c10d, the store uses a free port, and --master-addr, --master-port and --rdzv-endpoint have no effect."},
    {kCompatibility, "start-method", 0, "NAME", kVariable, kBetter, "This flag has no effect: distrun starts each worker as a new process."},
    {kCompatibility, "monitor-interval", 0, "SECONDS", kVariable, kBetter, "This flag has no effect: distrun notices at once that a worker exits."},
    {kCompatibility, "event-log-handler", 0, "NAME", kVariable, kLimited, "NAME must be null. To record events, use --events."},
    {kCompatibility, "logs-specs", 0, "NAME", kNoVariable, kLimited, "This flag is an error, because distrun cannot load Python plug-ins."},
    {kCompatibility, "numa-binding", 0, "KIND", kNoVariable, kLimited, "This flag is an error. Instead, start a script that reads LOCAL_RANK and calls numactl."},
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
