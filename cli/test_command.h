// `distrun test`: runs suites of distributed tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "cli/command.h"
#include "cli/test_nodes_flags.h"
#include "recording/recording_writer.h"
#include "testsuites/harness/session/python_tests.h"
#include "testsuites/harness/session/test_session.h"
#include "testsuites/harness/session/tested_program.h"

namespace distrun {

// The group of the flags that select tests.
inline constexpr const char* kTestSelection = "Selection";

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
  void check_after_dashes();
  void check_python();
  void check_program();
  void check_result_files();
  void check_rank_under();
  void check_nodes(const Environment& environment);
  void check_hosts(const Environment& environment);

  std::string command_of_nodes() const;
  // Fails with kInvalidArgument, which names the flag.
  Result<void> check_several_nodes() const;
  // Sets what flags do not set.
  Result<void> complete(const Environment& environment);
  // What runs the command after --.
  Result<std::vector<std::string>> host_of_command();
  // With --hosts.
  int run_hosts(const Environment& environment, std::ostream& out, std::ostream& err);
  int run_here(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err);
  // Runs the tests and then writes the recording, if --record is given.
  int run_recorded(const GuardLifeline& lifeline, std::ostream& out, std::ostream& err);
  RecordingFacts recording_facts(int status) const;
  std::function<void(const char* name, const std::string& path, std::string_view text)>
  report_taker();

  CLI::App* command_;
  TestSessionOptions options_;
  TestNodesFlags nodes_flags_;
  std::optional<TestNodesFlags::OnHosts> hosts_;
  bool is_node_0_ = true;  // Another node prints no results and writes no files.
  // Values that check() parses.
  std::vector<std::string> binaries_;
  std::optional<std::vector<std::string>> after_dashes_;
  std::optional<PythonTests> python_;
  std::optional<TestedProgram> program_;
  std::string shard_, timeout_ = "60", slow_after_ = "10", seed_, isolation_ = "fork";
  CLI::Option* json_flag_ = nullptr;
  std::string record_;
  std::optional<RecordingWriter> recording_;
  std::vector<std::string> words_;       // The command as it was given.
  std::vector<std::string> failed_ids_;  // After the run.
  bool stdout_has_results_ = false;      // Then the console is on stderr.
  int retries_ = 0, required_gpus_ = 0;
  bool failed_ = false, ignore_leaks_ = false;
};

}  // namespace distrun
