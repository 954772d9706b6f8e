// A rank of a run that crashes in every attempt but the last, and recovers:
//
//     distrun launch --max-restarts 6 --nproc-per-node 3 build/tests/restart_multirank_test
//
// One rank is killed, before init_process_group() or between two collectives. There are as many
// restarts as crashes, so any other failure, such as one caused by keys of an earlier attempt,
// fails the run.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <ATen/Functions.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace {

int number(const char* variable) { return std::stoi(std::getenv(variable)); }

}  // namespace

int main() {
  const int attempt = number("TORCHELASTIC_RESTART_COUNT"), rank = number("RANK"),
            ranks = number("WORLD_SIZE"), last = number("TORCHELASTIC_MAX_RESTARTS");
  const bool crashes = attempt < last && rank == attempt % ranks;
  const int where = attempt / ranks % 2;
  if (crashes && where == 0) std::raise(SIGKILL);
  distrun::init_process_group({.timeout = std::chrono::seconds(30)});
  for (int step = 0; step < 20; ++step) {
    if (crashes && step == 10) std::raise(SIGKILL);
    at::Tensor sum = at::full({1000}, rank + step);
    distrun::all_reduce(sum);
    const int expected = ranks * (ranks - 1) / 2 + ranks * step;
    if (sum[0].item<int>() != expected) {
      std::fprintf(stderr, "rank %d, step %d: %d instead of %d\n", rank, step, sum[0].item<int>(),
                   expected);
      return 70;
    }
  }
  distrun::destroy_process_group();
}
