// The help and the flags of `distrun test`.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/flags.h"
#include "cli/test_command.h"

namespace distrun {

namespace {

constexpr const char* kTestHelp =
    R"(A distributed test is a GoogleTest test that runs in several processes, which are called ranks.  The
test passes if every rank passes.  A rank passes if it checks at least one assertion and no
assertion fails.  If all ranks call GTEST_SKIP, the test is skipped.

The id of a test is SUITE.CLASS.TEST.  Without NAME, all tests run.

With "-- python3 FILE.py", distrun runs the tests in FILE.py: classes of unittest, and of PyTorch's
MultiProcessTestCase.  The rest of the line is for FILE.py.  The suite has the name of the file.

With "-- PROGRAM", the program itself is the test.  Each rank executes it, with torchrun's
variables.  --nproc sets the number of ranks, which otherwise is 2.  Exit status 0 passes, a status
of PyTorch's TEST_SKIPS (72 to 89) skips, and any other status fails.  To run a Python script so,
write "-- env python3 FILE.py".

The ranks of a test can run on several nodes.  Start distrun test on each node, for example with
srun, or give --hosts.  Node 0 prints the results.

When distrun receives SIGUSR1, distrun prints the call stack of each rank of the running tests, and
the collective that the rank is in.

Exit status:
  0      all tests passed
  1      a test failed, or the machine has fewer GPUs than --require-gpus
  2      wrong usage, or no test has the name NAME
  4      no test ran, because no test was selected or all selected tests were skipped
  125    distrun could not run the tests or write the results
  128+N  distrun received signal N

Examples:
  distrun test gloo
  distrun test gloo.ProcessGroupGlooTest -k 'allreduce and not stress' --repeat 20
  distrun test --failed --show-output
  distrun test --binary build/my_tests --junit results.xml
  distrun test gloo.CommTest.test_sum --rank-under 1 gdb --args
  distrun test -k allreduce -- python3 test_c10d_gloo.py
  distrun test --nproc 4 --timeout 30 -- ./check_ring --size 1024
  distrun test --hosts gpu-1,gpu-2 --binary build/my_tests

Documentation: docs/testing.md, docs/nodes.md, docs/errors.md)";

constexpr const char *kSelection = kTestSelection, *kRunning = "Running", *kResults = "Results";

}  // namespace

TestCommand::TestCommand(CLI::App& app)
    : command_(app.add_subcommand("test", "Run distributed tests.")) {
  command_->formatter(
      std::make_shared<HelpFormatter>("distrun test [flags] [NAME...] [-- COMMAND [args]]"));
  command_->footer(kTestHelp);
  command_
      ->add_option("NAME", options_.selection.names,
                   "Tests to run: SUITE, SUITE.CLASS or SUITE.CLASS.TEST.")
      ->type_name("");
  add_selection();
  add_ways_to_run();
  nodes_flags_.add_to(*command_);
  add_results();
  add_help_flag(*command_, "Help");
}

void TestCommand::add_selection() {
  CLI::App& app = *command_;
  app.add_option("-k,--keyword", options_.selection.expression,
                 "Run only tests whose id matches EXPRESSION. A word matches every id that "
                 "contains the word. Example: 'allreduce and not (stress or cuda)'.")
      ->type_name("EXPRESSION")
      ->group(kSelection);
  own_flag(app, "shard", shard_,
           "Split the tests into N shards, and run only shard I, from 1 to N.")
      ->type_name("I/N")
      ->group(kSelection);
  own_flag(app, "failed", failed_,
           "Run only tests that failed in an earlier run, and tests that Ctrl-C or --fail-fast "
           "stopped or left out. Tests that have passed since then are not run.")
      ->group(kSelection);
  own_flag(app, "list", options_.list,
           "Print the ids of the tests, and run no test. On a terminal, also print the number of "
           "ranks and GPUs, the backends and the time limit of each test. --list --json prints the "
           "list as JSON.")
      ->group(kSelection);
  app.add_option(
         "--binary", binaries_,
         "Run the tests of PROGRAM instead of distrun's own suites. The flag can be repeated.")
      ->type_name("PROGRAM")
      ->group(kSelection)
      ->allow_extra_args(false);
}

void TestCommand::add_ways_to_run() {
  CLI::App& app = *command_;
  own_flag(app, "jobs", options_.plan.jobs,
           "Maximum number of ranks that run at the same time, on all nodes together. 0 means "
           "twice the number of cores, but at least the number of ranks of the largest test.",
           "j")
      ->type_name("N")
      ->group(kRunning)
      ->check(number_from(0, kRanksMax));
  own_flag(app, "timeout", timeout_, "Time limit of each test that does not set its own limit.")
      ->type_name("SECONDS")
      ->group(kRunning);
  own_flag(app, "repeat", options_.plan.repeat, "Run each test N times.")
      ->type_name("N")
      ->group(kRunning)
      ->check(number_from(1, 1'000'000));
  own_flag(
      app, "retries", retries_,
      "Run a failed test again, at most N times. A test that then passes is reported as flaky.")
      ->type_name("N")
      ->group(kRunning)
      ->check(number_from(0, 1000));
  own_flag(app, "fail-fast", options_.runner.fail_fast, "After a test fails, start no more tests.")
      ->group(kRunning);
  own_flag(app, "shuffle", options_.plan.shuffle,
           "Run the tests in a random order, which --seed determines.")
      ->group(kRunning);
  seed_ = std::to_string(options_.plan.seed);
  own_flag(app, "seed", seed_,
           "Seed for --shuffle. Each rank also calls torch::manual_seed(N) before each test.")
      ->type_name("N")
      ->group(kRunning);
  own_flag(app, "nproc", options_.plan.nproc,
           "Number of ranks for tests that can run with different numbers of ranks. Such a test is "
           "skipped if it cannot run with N ranks. Tests with a fixed number of ranks keep that "
           "number. With 0, each test uses its default number.")
      ->type_name("N")
      ->group(kRunning)
      ->check(number_from(0, kRanksMax));
  own_flag(app, "backend", options_.plan.backend,
           "Run all tests with this backend. Tests that do not support the backend are skipped.")
      ->type_name("NAME")
      ->group(kRunning);
  own_flag(app, "isolation", isolation_,
           "How each rank starts. With fork, a rank is a copy of a process that has already loaded "
           "LibTorch. With exec, a rank is a new process.")
      ->type_name("KIND")
      ->group(kRunning)
      ->check(one_of("fork", "exec"));
  own_flag(app, "ignore-leaks", ignore_leaks_,
           "Do not fail tests that leave threads, open descriptors, shared memory or files behind. "
           "Leaked processes still fail a test.")
      ->group(kRunning);
  own_flag(app, "collectives-may-differ", options_.plan.collectives_may_differ,
           "Do not fail tests whose ranks run different collectives. distrun then prints the "
           "difference as a warning.")
      ->group(kRunning);
  own_flag(app, "no-skips", options_.runner.no_skips, "Report skipped tests as failed.")
      ->group(kRunning);
  own_flag(app, "require-gpus", required_gpus_,
           "Exit with status 1 if the machine has fewer than N GPUs. With several nodes, distrun "
           "looks at node 0 only.")
      ->type_name("N")
      ->group(kRunning)
      ->check(number_from(0, 4096));
  // read() removes COMMAND from the arguments before they are parsed.
  app.add_option("--rank-under", options_.runner.rank_under,
                 "Start rank R with COMMAND, such as gdb --args, on this terminal. --rank-under "
                 "must be the last flag, because the rest of the line is COMMAND.")
      ->type_name("R COMMAND...")
      ->group(kRunning)
      ->check(number_from(0, kRanksMax - 1));
}

void TestCommand::add_results() {
  CLI::App& app = *command_;
  json_flag_ = app.add_option("--json", options_.json,
                              "Write the results to FILE as JSON. If FILE is -, the results go to "
                              "stdout, and all other output goes to stderr.")
                   ->type_name("FILE")
                   ->group(kResults)
                   ->expected(0, 1);
  own_flag(app, "junit", options_.junit,
           "Write the results to FILE as JUnit XML. If FILE is -, the results go to stdout, and "
           "all other output goes to stderr.")
      ->type_name("FILE")
      ->group(kResults);
  own_flag(app, "html", options_.html,
           "Write an HTML report of the results to FILE. The report shows a timeline of the ranks "
           "of each test.")
      ->type_name("FILE")
      ->group(kResults);
  own_flag(app, "trace", options_.trace,
           "Write a trace of the tests to FILE, for Perfetto or chrome://tracing: the "
           "collectives, sends and receives of each rank, and its failures.")
      ->type_name("FILE")
      ->group(kResults);
  own_flag(app, "record", record_,
           "Record the run in the zip file FILE: the output, and the results in every form. "
           "distrun replay FILE prints the output again, and can run the failed tests again.")
      ->type_name("FILE")
      ->group(kResults);
  own_flag(app, "durations", options_.console.durations, "List the N slowest tests at the end.")
      ->type_name("N")
      ->group(kResults)
      ->check(number_from(0, 1'000'000));
  own_flag(app, "slow-after", slow_after_,
           "Print a SLOW line when a test has run for this time, for twice this time, and so on.")
      ->type_name("SECONDS")
      ->group(kResults);
  own_flag(app, "show-output", options_.console.show_output,
           "Also show the output of tests that pass.")
      ->group(kResults);
}

}  // namespace distrun
