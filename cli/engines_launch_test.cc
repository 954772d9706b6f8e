// Real launches, with the variables of engines. testsuites/engines has the engines themselves.
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/engine_flags.h"
#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using Words = std::vector<std::string>;

class EnginesLaunchTest : public ::testing::Test {
 protected:
  // As one of `tasks` that Slurm started on two nodes.
  EnginesLaunchTest() { set_slurm("2", "0", "1,1"); }

  void set_slurm(const std::string& tasks, const std::string& task, const std::string& counts) {
    for (const auto& [name, value] :
         {std::pair("SLURM_STEP_ID", std::string("0")), std::pair("SLURM_JOB_ID", job_),
          std::pair("SLURM_STEP_NUM_TASKS", tasks), std::pair("SLURM_PROCID", task),
          std::pair("SLURM_LOCALID", std::string("0")),
          std::pair("SLURM_STEP_NUM_NODES", std::string("2")),
          std::pair("SLURM_NODEID", std::string("0")),
          std::pair("SLURM_STEP_TASKS_PER_NODE", counts),
          std::pair("SLURM_STEP_NODELIST", std::string("n[0-1]"))}) {
      options_.environment.set(name, value);
    }
  }

  ProgramResult run(const Words& arguments) {
    Words program = {DISTRUN_PROGRAM};
    program.insert(program.end(), arguments.begin(), arguments.end());
    ProgramResult result = run_program(program, options_);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }

  // The variables of a worker, as a dry run prints them.
  std::string planned(Words flags) {
    flags.insert(flags.begin(), {"launch", "--dry-run"});
    flags.push_back("true");
    const ProgramResult result = run(flags);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
    return result.out;
  }

  const std::string job_ = "77";
  ProgramOptions options_;
};

TEST_F(EnginesLaunchTest, AnAgentHasItsNode) {
  set_slurm("2", "1", "1(x2)");
  options_.environment.set("SLURM_NODEID", "1");
  const std::string plan = planned({"--nproc-per-node", "2"});
  EXPECT_THAT(plan, HasSubstr("# local rank 1 of 2 on node 1 of 2\n"));
  EXPECT_THAT(plan, HasSubstr("MASTER_ADDR=n0 "));
  EXPECT_THAT(plan, HasSubstr("GROUP_RANK=1 "));
  EXPECT_THAT(plan, HasSubstr("TORCHELASTIC_RUN_ID=slurm-77.0 "));
}

TEST_F(EnginesLaunchTest, ATaskThatIsARankHasItsLocalRank) {
  set_slurm("3", "1", "2,1");
  options_.environment.set("SLURM_LOCALID", "1");
  const std::string plan = planned({});
  EXPECT_THAT(plan, HasSubstr("# rank 1 of 3, local rank 1 of 2\n"));
  EXPECT_THAT(plan, HasSubstr("\n  LOCAL_RANK=1 "));
  EXPECT_THAT(plan, HasSubstr("\n  LOCAL_WORLD_SIZE=2 "));
  EXPECT_THAT(plan, HasSubstr("\n  GROUP_RANK=0 "));
  EXPECT_THAT(plan, HasSubstr("\n  GROUP_WORLD_SIZE=2 "));
  EXPECT_THAT(plan, HasSubstr("\n  OMP_NUM_THREADS=1 "));
}

TEST_F(EnginesLaunchTest, FlagsAndVariablesOfTheUserCountFirst) {
  EXPECT_THAT(planned({"--master-addr", "10.0.0.1", "--rdzv-id", "mine"}),
              AllOf(HasSubstr("MASTER_ADDR=10.0.0.1 "), HasSubstr("TORCHELASTIC_RUN_ID=mine ")));
  EXPECT_THAT(planned({"--nnodes", "1"}), HasSubstr("# rank 0 of 1\n"));
  options_.environment.set("PET_STANDALONE", "1");
  EXPECT_THAT(planned({}), HasSubstr("# rank 0 of 1\n"));
}

TEST_F(EnginesLaunchTest, C10dNeedsNoNodeRankThere) {
  EXPECT_THAT(planned({"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "n0:29501"}),
              AllOf(HasSubstr("MASTER_PORT=29501 "), HasSubstr("GROUP_WORLD_SIZE=2 ")));
}

TEST_F(EnginesLaunchTest, TheFirstTaskTellsAContradiction) {
  const ProgramResult told = run({"launch", "--nnodes", "3", "true"});
  EXPECT_EQ(told.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(told.err,
            "distrun launch: --nnodes 3, but Slurm started 2 tasks on 2 nodes: remove --nnodes\n"
            "Try 'distrun launch --help'.\n");
  options_.environment.set("SLURM_PROCID", "1");
  const ProgramResult silent = run({"launch", "--nnodes", "3", "true"});
  EXPECT_EQ(silent.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(silent.err, "");
}

TEST_F(EnginesLaunchTest, TheAddressMustReachTheOtherNodes) {
  for (const Words& flags :
       {Words{"--master-addr", "127.8.0.1"}, Words{"--master-addr", "localhost"},
        Words{"--rdzv-endpoint", "[::1]:29501"}}) {
    Words words = {"launch", "true"};
    words.insert(words.begin() + 1, flags.begin(), flags.end());
    const ProgramResult refused = run(words);
    EXPECT_EQ(refused.end, ProcessEnd(ExitedWith{2}));
    EXPECT_EQ(refused.err, "distrun launch: " + flags[0] + " " + flags[1] +
                               " is a loopback address, but Slurm started 2 tasks on 2 "
                               "nodes: give an address of task 0 that the other nodes can reach, "
                               "or remove " +
                               flags[0] + "\nTry 'distrun launch --help'.\n");
  }
}

// So the advice in the message works.
TEST_F(EnginesLaunchTest, AHeterogeneousJobRunsWithFlags) {
  options_.environment.set("SLURM_HET_SIZE", "2");
  EXPECT_THAT(run({"launch", "true"}).err, HasSubstr("heterogeneous jobs are not supported"));
  EXPECT_THAT(planned({"--nnodes", "2", "--node-rank", "1", "--master-addr", "n7"}),
              HasSubstr("on node 1 of 2\n"));
  EXPECT_THAT(planned({"--standalone"}), HasSubstr("# rank 0 of 1\n"));
  EXPECT_EQ(run({"launch", "--help"}).end, ProcessEnd(ExitedWith{0}));
}

TEST_F(EnginesLaunchTest, AHeartbeatIsNotTooShort) {
  planned({"--heartbeat", "0"});
  planned({"--heartbeat", "0.1"});
  EXPECT_THAT(run({"launch", "--heartbeat", "0.09", "true"}).err,
              HasSubstr("--heartbeat: 0.09 is less than 0.1; give at least 0.1, or 0 for none\n"));
}

TEST_F(EnginesLaunchTest, AFixedNumberOfNodesMayHaveTorchrunsForm) {
  EXPECT_THAT(planned({"--nnodes", "2:2"}), HasSubstr("GROUP_WORLD_SIZE=2 "));
  EXPECT_THAT(planned({"--nnodes", "1:1"}), HasSubstr("# rank 0 of 1\n"));
}

TEST_F(EnginesLaunchTest, AWorkerOfARunDoesNotAskTheEngine) {
  options_.environment.set("TORCHELASTIC_RUN_ID", "outer");
  EXPECT_THAT(planned({}), HasSubstr("# rank 0 of 1\n"));
  EXPECT_THAT(run({"env", "--explain"}).out,
              HasSubstr("place   this node only: this process is a worker of a run "
                        "(TORCHELASTIC_RUN_ID)\n"));
}

// So the advice in the message works.
TEST_F(EnginesLaunchTest, ATaskOfPmixRunsWithFlags) {
  options_.environment.set("SLURM_STEP_ID", "");
  options_.environment.set("PMIX_NAMESPACE", "prterun-vm-1@1");
  options_.environment.set("PMIX_RANK", "1");
  EXPECT_THAT(run({"launch", "true"}).err,
              HasSubstr("PMIx started this process, and does not say"));
  EXPECT_THAT(planned({"--nnodes", "2", "--node-rank", "1", "--master-addr", "n7"}),
              HasSubstr("on node 1 of 2\n"));
  EXPECT_THAT(planned({"--standalone"}), HasSubstr("# rank 0 of 1\n"));
}

TEST_F(EnginesLaunchTest, APodIsANodeIfTheUserSaysHowManyThereAre) {
  options_.environment.set("SLURM_STEP_ID", "");
  options_.environment.set("JOB_COMPLETION_INDEX", "1");
  options_.environment.set("HOSTNAME", "train-1");
  options_.environment.set("RANK", "7");  // As PyTorchJob does.
  EXPECT_THAT(planned({}), AllOf(HasSubstr("# rank 0 of 1\n"), HasSubstr("\n  RANK=0 ")));
  EXPECT_THAT(planned({"--nnodes", "2", "--master-addr", "train-0.train"}),
              AllOf(HasSubstr("on node 1 of 2\n"), HasSubstr("MASTER_PORT=29500 "),
                    HasSubstr("TORCHELASTIC_RUN_ID=kubernetes-train ")));
  EXPECT_THAT(
      run({"env", "--explain"}).out,
      HasSubstr("engine  Kubernetes (Job train)\nplace   this node only: Kubernetes does not "
                "say how many pods there are; to run on N of them, give --nnodes N\n"));
}

// As two tasks of a node, this one the second.
class RankLaunchTest : public EnginesLaunchTest {
 protected:
  RankLaunchTest() {
    set_slurm("2", "1", "2");
    options_.environment.set("SLURM_LOCALID", "1");
    options_.environment.set("SLURM_STEP_NUM_NODES", "1");
  }
};

TEST_F(RankLaunchTest, ADeviceOfItsOwnIsTheVisibleOne) {
  options_.environment.set("CUDA_VISIBLE_DEVICES", "0,7");
  EXPECT_THAT(planned({"--virtual-local-rank"}), HasSubstr("CUDA_VISIBLE_DEVICES=7 "));
  options_.environment.set("CUDA_VISIBLE_DEVICES", "3");
  EXPECT_THAT(planned({"--virtual-local-rank"}), HasSubstr("CUDA_VISIBLE_DEVICES=3 "));
}

TEST_F(RankLaunchTest, FlagsForLocalRanksMeanThoseOfTheTasks) {
  planned({"--tee", "0:3,1:1", "--local-ranks-filter", "1"});
  EXPECT_THAT(run({"launch", "--tee", "2:3", "true"}).err,
              HasSubstr("local rank 2 does not exist"));
}

TEST_F(RankLaunchTest, TasksOfANodeCannotShareAPortOfMetrics) {
  EXPECT_THAT(run({"launch", "--metrics-port", "9411", "true"}).err,
              HasSubstr("--metrics-port: 2 tasks of this node cannot share a port; give 0\n"));
  planned({"--metrics-port", "0"});
}

TEST_F(EnginesLaunchTest, EveryTaskTellsAWrongVariable) {
  options_.environment.set("SLURM_PROCID", "x");
  EXPECT_THAT(run({"launch", "true"}).err,
              HasSubstr("distrun launch: SLURM_PROCID: 'x' is not a whole number\n"));
}

TEST(FileOfTaskTest, TasksDoNotWriteToOneFile) {
  EXPECT_EQ(file_of_task("report.html", 0), "report.html");
  EXPECT_EQ(file_of_task("report.html", 3), "report-3.html");
  EXPECT_EQ(file_of_task("out.d/trace", 12), "out.d/trace-12");
  EXPECT_EQ(file_of_task("/dev/null", 3), "/dev/null");
  EXPECT_EQ(file_of_task("", 3), "");
}

TEST_F(EnginesLaunchTest, EnvPrintsTheFlags) {
  options_.environment.set("PET_NPROC_PER_NODE", "4");
  const ProgramResult flags = run({"env"});
  EXPECT_EQ(flags.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(flags.out, HasSubstr("--nnodes 2\n--node-rank 0\n--nproc-per-node 4\n"));
}

TEST_F(EnginesLaunchTest, EnvExplainsThePlace) {
  const ProgramResult agent = run({"env", "--explain"});
  EXPECT_THAT(agent.out, HasSubstr("engine  Slurm (job 77, step 0)\n"
                                   "place   one task per node: node 0 of 2\n"
                                   "--master-addr n0      SLURM_STEP_NODELIST\n"));
  set_slurm("3", "1", "2,1");
  EXPECT_THAT(
      run({"env", "--explain"}).out,
      HasSubstr("place   one rank per task: rank 1 of 3, local rank 0 of 2, node 0 of 2\n"));
  options_.environment.set("PET_NNODES", "1");
  EXPECT_THAT(run({"env", "--explain"}).out, HasSubstr("place   this node only: PET_NNODES is 1\n"
                                                       "--nnodes 1  PET_NNODES\n"));
  options_.environment.set("PET_NNODES", "7");
  const ProgramResult contradiction = run({"env"});
  EXPECT_EQ(contradiction.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(contradiction.err,
            "distrun env: PET_NNODES 7, but Slurm started 3 tasks on 2 nodes: remove PET_NNODES\n");
}

}  // namespace
}  // namespace distrun
