#include "testsuites/harness/test_plan.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/shell_quote.h"

namespace distrun {

namespace {

std::string reason_to_skip(const TestNeeds& needs, const PlanOptions& options) {
  if (needs.min_gpus > options.gpus) {
    return fmt::format("needs {} GPU{}, and there {} {}", needs.min_gpus,
                       needs.min_gpus == 1 ? "" : "s", options.gpus == 1 ? "is" : "are",
                       options.gpus);
  }
  const auto& backends = needs.backends;
  if (!options.backend.empty() &&
      std::find(backends.begin(), backends.end(), options.backend) == backends.end()) {
    return fmt::format("has no backend {}, but {}", options.backend, fmt::join(backends, ", "));
  }
  return "";
}

int ranks_of(const TestNeeds& needs, const PlanOptions& options) {
  const bool allowed = options.nproc >= needs.ranks && options.nproc <= needs.ranks_max;
  return allowed ? options.nproc : needs.ranks;
}

std::chrono::milliseconds timeout_of(const TestNeeds& needs, const PlanOptions& options) {
  return needs.timeout.count() > 0 ? needs.timeout : options.timeout;
}

std::string repeat_command(const LoadedTest& loaded, const PlanOptions& options) {
  std::string command = "distrun test";
  if (!options.binaries.empty()) {
    command += " --binary " + shell_quoted(options.binaries[loaded.program]);
  }
  if (ranks_of(loaded.test.needs, options) == options.nproc) {
    command += fmt::format(" --nproc {}", options.nproc);
  }
  if (!options.backend.empty()) command += " --backend " + shell_quoted(options.backend);
  if (options.seed != PlanOptions().seed) command += fmt::format(" --seed {}", options.seed);
  if (options.fresh) command += " --isolation exec";
  return command + " " + shell_quoted(loaded.test.id);
}

}  // namespace

std::vector<PlannedTest> plan_tests(const std::vector<LoadedTest>& tests,
                                    const PlanOptions& options, const History& history) {
  std::vector<PlannedTest> plan;
  for (int repetition = 0; repetition < options.repeat; ++repetition) {
    for (const LoadedTest& loaded : tests) {
      const TestNeeds& needs = loaded.test.needs;
      PlannedTest planned{
          .test = loaded.test,
          .program = loaded.program,
          .ranks = ranks_of(needs, options),
          .backend = !options.backend.empty() ? options.backend : needs.backends.front(),
          .repetition = repetition,
          .timeout = timeout_of(needs, options),
          .skip_reason = reason_to_skip(needs, options),
          .repeat_command = repeat_command(loaded, options)};
      if (const auto time = history.time_of(loaded.test.id)) {
        planned.expected = std::chrono::ceil<std::chrono::milliseconds>(*time);
      }
      plan.push_back(std::move(planned));
    }
  }
  if (options.shuffle) {
    std::mt19937_64 random(options.seed);
    std::shuffle(plan.begin(), plan.end(), random);
  }
  return plan;
}

}  // namespace distrun
