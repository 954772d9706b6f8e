#include "cli/launch_flags.h"

#include <array>

#include "cli/flags.h"

namespace distrun {

namespace {

using enum FlagWorth;
constexpr bool kValue = true, kNoValue = false, kVariable = true, kNoVariable = false;

// clang-format off
constexpr auto kFlags = std::to_array<LaunchFlag>({
    {"nproc-per-node", 0, kValue, kVariable, kSame, "Workers on this node: a number; 'cpu', one per core; 'gpu', one per GPU; 'auto', GPUs or else cores."},
    {"nnodes", 0, kValue, kVariable, kBetter, "Nodes; on each one distrun is started."},
    {"node-rank", 0, kValue, kVariable, kBetter, "This node among them, from 0 on; node 0 has --master-addr."},
    {"standalone", 0, kNoValue, kVariable, kSame, "One node, at a free port whatever else is said."},
    {"rdzv-backend", 0, kValue, kVariable, kRefused, "Rendezvous of nodes: 'static', or 'c10d' for one node."},
    {"rdzv-endpoint", 0, kValue, kVariable, kBetter, "HOST:PORT for --master-addr and --master-port."},
    {"rdzv-id", 0, kValue, kVariable, kBetter, "TORCHELASTIC_RUN_ID; random by default."},
    {"rdzv-conf", 0, kValue, kVariable, kBetter, "timeout=S: how many seconds nodes wait for each other, 900 by default."},
    {"local-addr", 0, kValue, kVariable, kBetter, "Numeric address of this node, for its workers' MASTER_ADDR."},
    {"role", 0, kValue, kVariable, kSame, "ROLE_NAME of the workers."},
    {"store", 0, kValue, kVariable, kOwn, "The workers' rendezvous: 'tcp', or 'file:PATH', a file that is not there yet."},
    {"master-addr", 0, kValue, kVariable, kBetter, "Where a TCP store listens, MASTER_ADDR: a numeric address; of several nodes, node 0's, or its name."},
    {"master-port", 0, kValue, kVariable, kBetter, "Its port, MASTER_PORT; 0: a free one; several nodes: 29500 by default."},
    {"same-user", 0, kNoValue, kVariable, kOwn, "Refuse the store to processes of other users, and to other machines."},
    {"max-restarts", 0, kValue, kVariable, kBetter, "New attempts after a failed one, each with a fresh store."},
    {"shutdown-timeout", 0, kValue, kVariable, kBetter, "Seconds that workers have to end after SIGTERM, before SIGKILL."},
    {"timeout", 0, kValue, kVariable, kOwn, "End the run after so many seconds."},
    {"signals-to-handle", 0, kValue, kVariable, kBetter, "Signals that end the run."},
    {"forward-signals", 0, kValue, kVariable, kOwn, "Signals that go on to the workers: USR1,USR2."},
    {"module", 'm', kNoValue, kVariable, kSame, "PROGRAM is a Python module, as for python3 -m."},
    {"no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM itself, also where it is a .py."},
    {"run-path", 0, kNoValue, kVariable, kSame, "PROGRAM is a Python script, whatever its name."},
    {"virtual-local-rank", 0, kNoValue, kVariable, kSame, "LOCAL_RANK is 0 and CUDA_VISIBLE_DEVICES one GPU for each worker."},
    {"log-dir", 0, kValue, kVariable, kSame, "Keep log files in a new folder of this one; /dev/null: none, also no error files."},
    {"redirects", 'r', kValue, kVariable, kBetter, "Streams that go to files: 1 stdout, 2 stderr, 3 both; or by local rank, as in 0:3,1:2."},
    {"tee", 't', kValue, kVariable, kBetter, "Streams that go to files and to the console; as --redirects."},
    {"local-ranks-filter", 0, kValue, kVariable, kSame, "Only these local ranks reach the console, as in 0,2; files get all."},
    {"duplicate-stdout-filters", 0, kValue, kVariable, kSame, "Lines of teed stdout that contain one of these, as in loss,epoch, also go to one file."},
    {"duplicate-stderr-filters", 0, kValue, kVariable, kSame, "The same for stderr."},
    {"prefix", 0, kValue, kVariable, kOwn, "What begins each line on the console: text with ${role_name} ${rank} ${local_rank} ${host} ${stream} ${time}."},
    {"events", 0, kValue, kVariable, kOwn, "Append what happens to this file, as lines of JSON."},
    {"dry-run", 0, kNoValue, kNoVariable, kOwn, "Print each worker's command and variables; start nothing."},
    {"start-method", 0, kValue, kVariable, kSame, "Accepted: programs are executed, not forked."},
    {"monitor-interval", 0, kValue, kVariable, kBetter, "Accepted: an end is seen at once."},
    {"event-log-handler", 0, kValue, kVariable, kRefused, "Only 'null'."},
    {"logs-specs", 0, kValue, kNoVariable, kRefused, "A Python plug-in: not taken."},
    {"numa-binding", 0, kValue, kNoVariable, kRefused, "Not taken yet."},
    {"help", 'h', kNoValue, kNoVariable, kSame, "Print this help message and exit"},
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
