#include "testsuites/harness/run/exit_status_verdict.h"

#include <array>
#include <string>
#include <variant>

namespace distrun {

namespace {

struct Skip {
  int exit_code;
  const char* reason;
};

// TEST_SKIPS of torch/testing/_internal/common_distributed.py.
constexpr std::array kSkips = {
    Skip{72, "the backend is not available"},
    Skip{73, "needs more ranks"},
    Skip{74, "needs CUDA"},
    Skip{75, "needs 1 GPU"},
    Skip{76, "needs NCCL"},
    Skip{77, "needs 2 GPUs"},
    Skip{78, "does not run with ROCm"},
    Skip{79, "needs GPUs that can access each other's memory"},
    Skip{80, "needs 3 GPUs"},
    Skip{81, "needs 4 GPUs"},
    Skip{82, "needs 5 GPUs"},
    Skip{83, "needs 6 GPUs"},
    Skip{84, "needs 7 GPUs"},
    Skip{85, "needs 8 GPUs"},
    Skip{86, "the output says why"},
    Skip{87, "needs an even number of ranks"},
    Skip{88, "an import failed"},
    Skip{89, "needs an accelerator"},
};

}  // namespace

RankFacts judged_by_exit_status(RankFacts facts) {
  const bool is_by_itself = facts.end && !facts.was_ended && !facts.was_late && !facts.host_lost;
  const auto* exit = is_by_itself ? std::get_if<ExitedWith>(&*facts.end) : nullptr;
  if (facts.was_ended) facts.leaked.clear();  // It could not end what it had started.
  if (exit == nullptr) return facts;
  facts.is_done = true;
  if (exit->code == 0) {
    facts.assertions = 1;
    return facts;
  }
  for (const Skip& skip : kSkips) {
    if (skip.exit_code != exit->code) continue;
    facts.skip_reason =
        std::string("exit code ") + std::to_string(skip.exit_code) + ": " + skip.reason;
    facts.end = ExitedWith{0};
    return facts;
  }
  facts.failures.push_back({.message = describe(*facts.end)});
  return facts;
}

}  // namespace distrun
