#include "testsuites/harness/session/test_plan.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/shell_quote.h"

namespace distrun {

namespace {

bool has_range(const TestNeeds& needs) { return needs.ranks_max > needs.ranks; }

int ranks_of(const TestNeeds& needs, const PlanOptions& options) {
  const bool allowed = options.nproc >= needs.ranks && options.nproc <= needs.ranks_max;
  return allowed ? options.nproc : needs.ranks;
}

std::string reason_to_skip(const TestNeeds& needs, const PlanOptions& options) {
  const bool can_share = options.share_gpus && options.gpus > 0;
  if (needs.min_gpus > options.gpus && !can_share) {
    return fmt::format("needs {} GPU{}; there {} {} CUDA device{}", needs.min_gpus,
                       needs.min_gpus == 1 ? "" : "s", options.gpus == 1 ? "is" : "are",
                       options.gpus, options.gpus == 1 ? "" : "s");
  }
  const auto& backends = needs.backends;
  if (!options.backend.empty() &&
      std::find(backends.begin(), backends.end(), options.backend) == backends.end()) {
    return fmt::format("does not support backend {}, only {}", options.backend,
                       fmt::join(backends, ", "));
  }
  if (options.nproc > 0 && has_range(needs) && ranks_of(needs, options) != options.nproc) {
    return fmt::format("takes {} to {} ranks; --nproc is {}", needs.ranks, needs.ranks_max,
                       options.nproc);
  }
  return "";
}

std::chrono::milliseconds timeout_of(const TestNeeds& needs, const PlanOptions& options) {
  return needs.timeout.value_or(options.timeout);
}

std::string binary_flag(const std::string& program) { return " --binary " + shell_quoted(program); }

// The flags on which results depend.
std::string flags_of(const PlanOptions& options, bool with_nproc, bool with_timeout) {
  std::string flags;
  if (with_nproc) flags += fmt::format(" --nproc {}", options.nproc);
  if (with_timeout && options.timeout != PlanOptions().timeout) {
    flags += fmt::format(" --timeout {}", seconds(options.timeout));
  }
  if (!options.backend.empty()) flags += " --backend " + shell_quoted(options.backend);
  if (options.seed != PlanOptions().seed) flags += fmt::format(" --seed {}", options.seed);
  if (options.fresh) flags += " --isolation exec";
  if (options.ignore_leaks) flags += " --ignore-leaks";
  if (options.collectives_may_differ) flags += " --collectives-may-differ";
  if (options.no_skips) flags += " --no-skips";
  return flags;
}

std::string after_dashes(const PlanOptions& options) {
  std::string words = options.command.empty() ? "" : " --";
  for (const std::string& word : options.command) words += " " + shell_quoted(word);
  return words;
}

std::string repeat_command(const LoadedTest& loaded, const PlanOptions& options) {
  const TestNeeds& needs = loaded.test.needs;
  std::string command = "distrun test";
  if (!options.binaries.empty()) command += binary_flag(options.binaries[loaded.program]);
  command += flags_of(options, ranks_of(needs, options) == options.nproc, !needs.timeout);
  return command + " " + shell_quoted(loaded.test.id) + after_dashes(options);
}

PlannedTest planned(const LoadedTest& loaded, const PlanOptions& options, const History& history) {
  const TestNeeds& needs = loaded.test.needs;
  PlannedTest test{.test = loaded.test,
                   .program = loaded.program,
                   .ranks = ranks_of(needs, options),
                   .backend = !options.backend.empty() ? options.backend : needs.backends.front(),
                   .timeout = timeout_of(needs, options),
                   .skip_reason = reason_to_skip(needs, options),
                   .repeat_command = repeat_command(loaded, options)};
  test.test.needs.collectives_may_differ |= options.collectives_may_differ;
  if (const auto time = history.time_of(loaded.test.id)) {
    test.expected = std::chrono::ceil<std::chrono::milliseconds>(*time);
  }
  return test;
}

std::vector<TestPlan::Turn> turns_of(std::size_t tests, const PlanOptions& options) {
  std::vector<TestPlan::Turn> turns;
  turns.reserve(tests * static_cast<std::size_t>(options.repeat));
  for (int repetition = 0; repetition < options.repeat; ++repetition) {
    for (std::uint32_t test = 0; test < tests; ++test) turns.push_back({test, repetition});
  }
  if (options.shuffle) {
    std::mt19937_64 random(options.seed);
    std::shuffle(turns.begin(), turns.end(), random);
  }
  return turns;
}

int jobs_for(const std::vector<PlannedTest>& tests, const PlanOptions& options) {
  if (options.jobs > 0) return options.jobs;
  int jobs = 2 * options.cpus;
  for (const PlannedTest& test : tests) {
    if (test.skip_reason.empty()) jobs = std::max(jobs, test.ranks);
  }
  return jobs;
}

}  // namespace

std::string repeat_failed_command(const PlanOptions& options, const TestSelection& selection) {
  std::string command = "distrun test --failed";
  for (const std::string& program : options.binaries) command += binary_flag(program);
  command += flags_of(options, options.nproc > 0, /*with_timeout=*/true);
  if (options.shuffle) command += " --shuffle";
  if (!selection.expression.empty()) command += " -k " + shell_quoted(selection.expression);
  const TestShard& shard = selection.shard;
  if (shard.count > 1) command += fmt::format(" --shard {}/{}", shard.index, shard.count);
  for (const std::string& name : selection.names) command += " " + shell_quoted(name);
  return command + after_dashes(options);
}

TestPlan plan_tests(const std::vector<LoadedTest>& tests, const PlanOptions& options,
                    const History& history) {
  TestPlan plan;
  for (const LoadedTest& loaded : tests) plan.tests.push_back(planned(loaded, options, history));
  plan.turns = turns_of(tests.size(), options);
  plan.jobs = jobs_for(plan.tests, options);
  return plan;
}

}  // namespace distrun
