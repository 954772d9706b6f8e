// A run that crashes again and again, and recovers each time:
//
//     distrun launch --max-restarts 6 --nproc-per-node 3 build/tests/restart_multirank_test
//
// In every attempt but the last, a rank is killed: before, while or after the others connect to it,
// or in the middle of a collective.  There are as many restarts as crashes, so one attempt that
// fails otherwise, as by what is left of the attempt before, fails the run.
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
