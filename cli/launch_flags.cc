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
    {kWorkers, "nproc-per-node", 0, "N", kVariable, kLimited, "Number of workers on this node. N can also be cpu (one worker per core), gpu (one worker per GPU) or auto (the same as gpu if there are GPUs, otherwise the same as cpu)."},
    {kWorkers, "module", 'm', kNoValue, kVariable, kSame, "Treat PROGRAM as the name of a Python module, as python3 -m does."},
    {kWorkers, "no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM directly, without Python, even if PROGRAM ends with .py."},
    {kWorkers, "run-path", 0, kNoValue, kVariable, kBetter, "Run PROGRAM with Python, even if PROGRAM does not end with .py."},
    {kWorkers, "virtual-local-rank", 0, kNoValue, kVariable, kSame, "Set LOCAL_RANK to 0 in every worker, and set CUDA_VISIBLE_DEVICES to a different GPU for each worker."},
    {kWorkers, "numa-binding", 0, "KIND", kNoVariable, kLimited, "Let each worker run only on CPUs near its GPU. Local rank 0 has the first visible GPU, local rank 1 the second, and so on. KIND is node (all CPUs of the NUMA node of the GPU), socket (all CPUs of its socket), exclusive (the cores of the NUMA node, divided among the GPUs of the node) or core-complex (CPUs of the NUMA node that share a cache)."},
    {kWorkers, "role", 0, "NAME", kVariable, kSame, "Role of the workers. The variable ROLE_NAME of each worker contains NAME. The default prefix of output lines contains NAME too."},
    {kWorkers, "dry-run", 0, kNoValue, kNoVariable, kOwn, "Print the command of each worker, and the environment variables that distrun sets or removes. No worker is started."},
    {kNodes, "nnodes", 0, "N", kVariable, kLimited, "Number of nodes (machines) in the run. You must start distrun launch on each node, or give --hosts instead."},
    {kNodes, "node-rank", 0, "N", kVariable, kBetter, "Rank of this node, from 0 to the number of nodes minus 1. Node 0 runs the store, through which the workers find each other."},
    {kNodes, "master-addr", 0, "HOST", kVariable, kBetter, "Address of the store, and value of MASTER_ADDR in the workers. With several nodes, give the address or the name of node 0. On one node, if HOST is a name and not an IP address, distrun uses 127.0.0.1."},
    {kNodes, "master-port", 0, "PORT", kVariable, kBetter, "Port of the store, and value of MASTER_PORT in the workers. On one node, the default is 0, which means a free port. With several nodes, the default is 29500."},
    {kNodes, "rdzv-endpoint", 0, "HOST:PORT", kVariable, kBetter, "Same as --master-addr HOST --master-port PORT."},
    {kNodes, "rdzv-conf", 0, "LIST", kVariable, kBetter, "Settings of the form KEY=VALUE, separated by commas. timeout=SECONDS sets the longest time that nodes wait for each other at the start. The default is 900 seconds. join_timeout=SECONDS has the same meaning. torchrun's other keys are accepted, but have no effect."},
    {kNodes, "rdzv-id", 0, "ID", kVariable, kBetter, "Id of the run, and value of TORCHELASTIC_RUN_ID in the workers. The default is a random UUID. With several nodes, the default is 'none'. On one node without --standalone, the default is also 'none' if you give --master-port, --rdzv-endpoint or --rdzv-backend c10d."},
    {kNodes, "local-addr", 0, "ADDRESS", kVariable, kBetter, "IP address of the store, instead of --master-addr. The flag has no effect if the run has several nodes, or if --master-port or --rdzv-endpoint sets the port."},
    {kNodes, "hosts", 0, "LIST", kVariable, kOwn, "Start the run on other machines, over ssh. LIST contains names or addresses, separated by commas, such as gpu-1:8,gpu-2:4. The number after the colon is --nproc-per-node of this host. gpu[1-4]:8 means four hosts. The first host is node 0."},
    {kNodes, "ssh", 0, "COMMAND", kVariable, kOwn, "Command that connects to the hosts of --hosts, such as 'ssh -p 2222 -i key'. distrun splits COMMAND at spaces, and adds options of ssh and the host."},
    {kNodes, "pass-env", 0, "LIST", kVariable, kOwn, "Names of environment variables, separated by commas, that distrun passes to the hosts of --hosts. distrun always passes PATH and the variables of Python, PyTorch, OpenMP, Gloo, NCCL and CUDA, except CUDA_VISIBLE_DEVICES."},
    {kNodes, "check", 0, kNoValue, kNoVariable, kOwn, "Before the run, check all nodes as distrun check does. If it finds a problem, distrun starts no worker, and exits with 1."},
    {kNodes, "display-map", 0, kNoValue, kVariable, kOwn, "When all nodes have joined, node 0 prints which ranks run on which node."},
    {kNodes, "standalone", 0, kNoValue, kVariable, kBetter, "Run on this node only, with the store on a free port. --master-addr, --master-port, --rdzv-endpoint and --rdzv-backend have no effect. --nnodes must be 1."},
    {kStore, "store", 0, "KIND", kVariable, kOwn, "KIND is tcp, for a store that the workers reach over TCP, or file:PATH, for a store in the file PATH. The file must be empty, or must not exist yet."},
    {kStore, "same-user", 0, kNoValue, kVariable, kOwn, "The store accepts only clients on this machine that run as your user or as root."},
    {kFailures, "max-restarts", 0, "N", kVariable, kBetter, "After a failure, restart all workers with a new, empty store. distrun restarts the workers at most N times."},
    {kFailures, "timeout", 0, "SECONDS", kVariable, kOwn, "If the run takes longer than this time, print the call stack of each worker and stop the run with exit status 124. Without this flag, the run has no time limit."},
    {kFailures, "hang-after", 0, "SECONDS", kVariable, kOwn, "If no worker makes progress for this time, print the call stack of each worker and stop the run with exit status 75. Without this flag, distrun does not stop a run that makes no progress. A worker makes progress when it prints something, exits, sends or receives data over TCP, or starts a collective that distrun records (--collectives). Requests to the store do not count as progress, except those that create a key or change the value of a key."},
    {kFailures, "collectives", 0, kNoValue, kVariable, kOwn, "Record the collectives of Python workers, such as all_reduce. distrun can then name ranks that do not enter a collective, or that are often late. This flag requires the Python package distrun. C++ workers that link libdistrun record their collectives without this flag."},
    {kFailures, "digest", 0, kNoValue, kVariable, kOwn, "Check whether all ranks receive the same values in all_reduce, all_gather and broadcast, and name the first collective in which the values differ. This flag also turns on --collectives."},
    {kFailures, "save-digests", 0, "FILE", kVariable, kOwn, "Write to FILE the checksums of the inputs and outputs of the collectives on each rank. --compare-digests can compare a later run with FILE. This flag includes --digest."},
    {kFailures, "compare-digests", 0, "FILE", kVariable, kOwn, "Compare the values in the collectives of this run with those of the run that wrote FILE, and name the first collective in which they differ. This flag includes --digest."},
    {kFailures, "shutdown-timeout", 0, "SECONDS", kVariable, kBetter, "Time between SIGTERM and SIGKILL when distrun stops workers."},
    {kFailures, "heartbeat", 0, "SECONDS", kVariable, kOwn, "With several nodes, the time after which a node must have answered. distrun reports a node that has not answered for two such times, and ends the run after three. 0 means that distrun waits without a limit."},
    {kFailures, "signals-to-handle", 0, "LIST", kVariable, kBetter, "Signals that stop the run, separated by commas. distrun sends each of them on to the workers when it receives it."},
    {kFailures, "forward-signals", 0, "LIST", kVariable, kOwn, "Signals that distrun forwards to the workers without stopping the run, separated by commas, such as USR1,USR2."},
    {kOutput, "log-dir", 0, "FOLDER", kVariable, kSame, "Create a new folder in FOLDER, for the log files of -r and -t, and for the files in which workers report errors (TORCHELASTIC_ERROR_FILE). After each restart, the workers write to new files. Without this flag, -r and -t create the folder in TMPDIR or /tmp. If none of --log-dir, -r and -t is given, distrun keeps no log files and no error files. If FOLDER is /dev/null, distrun writes neither log files nor error files, and all output goes to the console."},
    {kOutput, "redirects", 'r', "STREAMS", kVariable, kBetter, "Write output to log files instead of the console. STREAMS is 1 for stdout, 2 for stderr, 3 for both, or 0 for none. To choose different streams for each worker, list LOCAL_RANK:STREAMS. For example, 0:3,1:2 means both streams of local rank 0, and stderr of local rank 1."},
    {kOutput, "tee", 't', "STREAMS", kVariable, kBetter, "Write output to log files and to the console. STREAMS has the same form as for --redirects."},
    {kOutput, "local-ranks-filter", 0, "LIST", kVariable, kSame, "Local ranks, separated by commas, such as 0,2. The console shows only the output of these local ranks. The files of the next two flags, filtered_stdout.log and filtered_stderr.log, also contain only this output. The other log files contain the output of all local ranks."},
    {kOutput, "duplicate-stdout-filters", 0, "LIST", kVariable, kSame, "Words, separated by commas, such as loss,epoch. If --tee copies stdout, distrun also writes each stdout line that contains one of these words to filtered_stdout.log."},
    {kOutput, "duplicate-stderr-filters", 0, "LIST", kVariable, kSame, "Words, separated by commas. If --tee copies stderr, distrun also writes each stderr line that contains one of these words to filtered_stderr.log."},
    {kOutput, "prefix", 0, "TEXT", kVariable, kOwn, "Put TEXT before every line on the console. TEXT can contain ${role_name}, ${rank}, ${local_rank}, ${host} (or ${hostname}), ${stream} and ${time}. The default prefix is '[${role_name}${local_rank}]:'. Without --prefix, distrun puts the default prefix before all lines if the console is a terminal and shows several workers, and otherwise only before the lines that --tee copies."},
    {kOutput, "log-line-prefix-template", 0, "TEXT", kVariable, kBetter, "Use TEXT as the default prefix, instead of '[${role_name}${local_rank}]:'. TEXT can contain the same variables as for --prefix. Unlike --prefix, this flag adds no prefix to lines that have none by default. If --prefix is given, this flag has no effect."},
    {kOutput, "termination-log", 0, "FILE", kVariable, kOwn, "If the run fails, write the first lines of the summary to FILE, at most 4096 bytes. FILE must exist. In a pod of Kubernetes, the default is /dev/termination-log, so that kubectl describe pod shows the summary. If FILE is empty, nothing is written."},
    {kOutput, "html", 0, "FILE", kVariable, kOwn, "Write an HTML report of the run to FILE. The report shows a timeline with restarts and failures, and the CPU use, memory and output of each rank."},
    {kOutput, "events", 0, "FILE", kVariable, kOwn, "Append the events of the run to FILE, one JSON object per line."},
    {kOutput, "trace", 0, "FILE", kVariable, kOwn, "Write a trace of the run to FILE, for Perfetto or chrome://tracing. The trace shows the collectives, sends and receives of each rank, starts and failures, CPU use and memory. This flag includes --collectives."},
    {kOutput, "record", 0, "FILE", kVariable, kOwn, "Record the run in the zip file FILE: the output, the events, the HTML report and the trace. distrun replay FILE prints the output again."},
    {kOutput, "metrics-port", 0, "PORT", kVariable, kOwn, "Serve metrics of the workers of this node for Prometheus, at http://127.0.0.1:PORT/metrics. If PORT is 0, distrun chooses a free port and prints the address."},
    {kOutput, "metrics-host", 0, "ADDRESS", kVariable, kOwn, "IP address at which --metrics-port listens. 0.0.0.0 means all addresses of this machine. Everyone who can connect can read the metrics."},
    {kCompatibility, "rdzv-backend", 0, "NAME", kVariable, kLimited, "NAME is static or c10d. c10d is supported on one node, and on several nodes that an engine, such as Slurm or mpirun, started. On one node with c10d, the store uses a free port, and --master-addr, --master-port and --rdzv-endpoint have no effect."},
    {kCompatibility, "start-method", 0, "NAME", kVariable, kBetter, "NAME is spawn, fork or forkserver. This flag has no effect, because distrun always starts each worker as a new process."},
    {kCompatibility, "monitor-interval", 0, "SECONDS", kVariable, kBetter, "This flag has no effect, because distrun notices at once when a worker exits."},
    {kCompatibility, "event-log-handler", 0, "NAME", kVariable, kLimited, "NAME must be null. To record events, use --events."},
    {kCompatibility, "logs-specs", 0, "NAME", kNoVariable, kLimited, "This flag is not supported, because distrun cannot load Python plug-ins."},
    {kCompatibility, "print-completion", 0, "SHELL", kNoVariable, kLimited, "SHELL is bash or zsh. Print the completion script for this shell, and exit."},
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
