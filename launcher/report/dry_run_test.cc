#include "launcher/report/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

LaunchOptions two_workers() { return {.nproc_per_node = 2, .run_id = "a run"}; }

const Command kCommand{"/usr/bin/python3", {"python3", "-u", "train.py", "--name=it's"}};

std::string dry_run_of(const LaunchOptions& options, const Environment& environment = {}) {
  return dry_run_text(make_plan(options, kCommand, environment).value());
}

TEST(DryRunTest, ShowsVariablesAndCommandOfEachWorker) {
  const std::string all = dry_run_of(two_workers());
  EXPECT_THAT(all, StartsWith("# rank 0 of 2\nenv -u DISTRUN_INIT_METHOD \\\n"));
  EXPECT_THAT(all, HasSubstr("\n# rank 1 of 2\nenv"));
  EXPECT_THAT(all, AllOf(HasSubstr("\n  RANK=0 \\\n"), HasSubstr("\n  RANK=1 \\\n")));
  EXPECT_THAT(all, EndsWith(" \\\n  /usr/bin/python3 -u train.py '--name=it'\\''s'\n"));
}

TEST(DryRunTest, QuotesValuesForAShell) {
  EXPECT_THAT(dry_run_of(two_workers()), HasSubstr("TORCHELASTIC_RUN_ID='a run'"));
}

TEST(DryRunTest, MarksUnknownValues) {
  LaunchOptions options = two_workers();
  EXPECT_THAT(dry_run_of(options), AllOf(HasSubstr("MASTER_PORT='(a free port)'"),
                                         HasSubstr("TORCHELASTIC_ERROR_FILE='(a new folder)/")));
  options.master_port = 29500;
  EXPECT_THAT(dry_run_of(options),
              AllOf(HasSubstr("MASTER_PORT=29500"), Not(HasSubstr("free port"))));
}

TEST(DryRunTest, ShowsStoreFileInsteadOfPort) {
  LaunchOptions options = two_workers();
  options.store = {StoreChoice::Kind::kFile, "/scratch/meet"};
  EXPECT_THAT(
      dry_run_of(options),
      AllOf(HasSubstr("env -u DISTRUN_STORE -u MASTER_ADDR -u MASTER_PORT \\\n"),
            HasSubstr("DISTRUN_INIT_METHOD=file:///scratch/meet"), Not(HasSubstr("free port"))));
}

TEST(DryRunTest, MarksRanksAsUnknownWithSeveralNodes) {
  LaunchOptions options = two_workers();
  options.nnodes = 3;
  options.node_rank = 1;
  options.master_port = 29500;
  const std::string all = dry_run_of(options);
  EXPECT_THAT(all, StartsWith("# local rank 0 of 2 on node 1 of 3\n"));
  EXPECT_THAT(all, AllOf(HasSubstr("\n  RANK='(known when all nodes have joined)'"),
                         HasSubstr("\n  WORLD_SIZE='(known"), HasSubstr("\n  ROLE_RANK='(known"),
                         HasSubstr("\n  LOCAL_RANK=1"), HasSubstr("\n  GROUP_RANK=1")));
  EXPECT_THAT(all, Not(HasSubstr("RANK=0 of")));
}

TEST(DryRunTest, ShowsTheCpusOfBoundWorkers) {
  LaunchPlan plan = make_plan(two_workers(), kCommand, {}).value();
  plan.workers[0].cpus = {0, 1, 2, 8};
  plan.workers[1].cpus = {3};
  EXPECT_THAT(dry_run_text(plan), AllOf(StartsWith("# rank 0 of 2, on CPUs 0-2,8\nenv"),
                                        HasSubstr("\n# rank 1 of 2, on CPUs 3\nenv")));
  plan.options.nnodes = 3;
  EXPECT_THAT(dry_run_text(plan),
              StartsWith("# local rank 0 of 2 on node 0 of 3, on CPUs 0-2,8\n"));
}

TEST(DryRunTest, OmitsInheritedVariables) {
  Environment environment;
  environment.set("SECRET", "do not print");
  EXPECT_THAT(dry_run_of(two_workers(), environment), Not(HasSubstr("SECRET")));
}

}  // namespace
}  // namespace distrun
