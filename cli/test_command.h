// `distrun test`: runs suites of distributed tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "testsuites/harness/session/python_tests.h"
#include "testsuites/harness/session/test_session.h"

namespace distrun {

class TestCommand : public CliCommand {
 public:
  // Adds the command to `app`, which must outlive it.
  explicit TestCommand(CLI::App& app);

  // Removes the command after -- or --rank-under R from distrun's arguments. Throws
  // CLI::ParseError.
  void read(std::vector<std::string>& arguments);

  bool is_chosen() const override { return command_->parsed(); }
  void check(const Environment& environment) override;
  int run(const Environment& environment, std::ostream& out, std::ostream& err) override;

 private:
  void add_selection();
  void add_ways_to_run();
  void add_results();

  // Throw CLI::ParseError.
  void check_selection();
  void check_python();
  void check_result_files();
  void check_rank_under();

  // Sets what flags do not set.
  Result<void> complete(const Environment& environment);
  Result<void> complete_python(const Environment& environment);
  int run_here(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err);

  CLI::App* command_;
  TestSessionOptions options_;
  // Values that check() parses.
  std::vector<std::string> binaries_;
  std::optional<std::vector<std::string>> after_dashes_;
  std::optional<PythonTests> python_;
  std::string shard_, timeout_ = "60", slow_after_ = "10", seed_, isolation_ = "fork";
  CLI::Option* json_flag_ = nullptr;
  bool stdout_has_results_ = false;  // Then the console is on stderr.
  int retries_ = 0, required_gpus_ = 0;
  bool failed_ = false, ignore_leaks_ = false;
};

}  // namespace distrun
