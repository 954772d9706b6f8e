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
    {"nnodes", 0, kValue, kVariable, kRefused, "Nodes; only 1 so far."},
    {"node-rank", 0, kValue, kVariable, kBetter, "Which of the nodes this one is, from 0."},
    {"standalone", 0, kNoValue, kVariable, kSame, "One node, at a free port whatever else is said."},
    {"rdzv-backend", 0, kValue, kVariable, kRefused, "How nodes meet: 'static', or 'c10d' for one node."},
    {"rdzv-endpoint", 0, kValue, kVariable, kBetter, "HOST:PORT for --master-addr and --master-port."},
    {"rdzv-id", 0, kValue, kVariable, kBetter, "TORCHELASTIC_RUN_ID; random by default."},
    {"rdzv-conf", 0, kValue, kVariable, kBetter, "KEY=VALUE,...: checked; nothing on one node needs it."},
    {"local-addr", 0, kValue, kVariable, kBetter, "Numeric address of this node, for its workers' MASTER_ADDR."},
    {"role", 0, kValue, kVariable, kSame, "ROLE_NAME of the workers."},
    {"store", 0, kValue, kVariable, kOwn, "Where workers meet: 'tcp', or 'file:PATH', a file that is not there yet."},
    {"master-addr", 0, kValue, kVariable, kBetter, "Numeric address at which a TCP store listens: MASTER_ADDR."},
    {"master-port", 0, kValue, kVariable, kBetter, "Its port, MASTER_PORT; 0: a free one."},
    {"same-user", 0, kNoValue, kVariable, kOwn, "Refuse the store to processes of other users, and to other machines."},
    {"max-restarts", 0, kValue, kVariable, kBetter, "New attempts after a failed one, each with a fresh store."},
    {"shutdown-timeout", 0, kValue, kVariable, kBetter, "Seconds that workers have to end after SIGTERM, before SIGKILL."},
    {"timeout", 0, kValue, kVariable, kOwn, "End the run after so many seconds; 0: never."},
    {"signals-to-handle", 0, kValue, kVariable, kBetter, "Signals that end the run."},
    {"forward-signals", 0, kValue, kVariable, kOwn, "Signals that go on to the workers: USR1,USR2."},
    {"module", 'm', kNoValue, kVariable, kSame, "PROGRAM is a Python module, as for python3 -m."},
    {"no-python", 0, kNoValue, kVariable, kSame, "Execute PROGRAM itself, also where it is a .py."},
    {"run-path", 0, kNoValue, kVariable, kSame, "PROGRAM is a Python script, whatever its name."},
    {"virtual-local-rank", 0, kNoValue, kVariable, kSame, "LOCAL_RANK is 0 and CUDA_VISIBLE_DEVICES one GPU for each worker."},
    {"log-dir", 0, kValue, kVariable, kRefused, "Folder of log files."},
    {"redirects", 'r', kValue, kVariable, kRefused, "Streams that go to log files."},
    {"tee", 't', kValue, kVariable, kRefused, "Streams that go to log files too."},
    {"local-ranks-filter", 0, kValue, kVariable, kRefused, "Local ranks whose output is shown."},
    {"duplicate-stdout-filters", 0, kValue, kVariable, kRefused, "Words whose lines of stdout are kept apart."},
    {"duplicate-stderr-filters", 0, kValue, kVariable, kRefused, "Words whose lines of stderr are kept apart."},
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
