#include "launcher/engines/engine_facts.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/engines/test/recorded_engines.h"

namespace distrun {
namespace {

using test::environment_of;
using test::kHostsOfPod;
using test::kIndexedJob;
using test::kJsrun;
using test::kMpich;
using test::kOpenMpi;
using test::kPrterun;
using test::kRankFileOfLsf;
using test::kSlurmBatchScript;
using test::kSlurmStep;

constexpr int kHydra = 7299;
std::optional<int> hydra_at(int descriptor) {
  return descriptor == 11 ? std::optional<int>(kHydra) : std::nullopt;
}

// With the files of a task: their texts by path.
using Files = std::map<std::string, std::string>;

EngineProbes probes_with(const Files& files) {
  return {.process_at = hydra_at, .text_of = [files](const std::string& path) {
            const auto file = files.find(path);
            return file == files.end() ? std::nullopt : std::optional(file->second);
          }};
}

std::optional<EngineFacts> facts_of(const test::Variables& variables,
                                    const test::Variables& changes = {}, const Files& files = {}) {
  return engine_facts(environment_of(variables, changes), probes_with(files)).value();
}

std::string error_of(const test::Variables& variables, const test::Variables& changes) {
  const auto facts = engine_facts(environment_of(variables, changes), probes_with({}));
  return facts ? "" : facts.error().message;
}

TEST(EngineFactsTest, AProcessThatTheUserStartedHasNoEngine) {
  EXPECT_FALSE(facts_of({{"PATH", "/usr/bin"}, {"RANK", "3"}}));
}

TEST(EngineFactsTest, AStepOfSlurmSaysEverything) {
  const auto facts = facts_of(kSlurmStep).value();
  EXPECT_EQ(facts.engine, "Slurm");
  EXPECT_EQ(facts.job, "job 77, step 0");
  EXPECT_EQ(facts.id, "slurm-77.0");
  EXPECT_EQ(facts.tasks.value, 3);
  EXPECT_EQ(facts.task.value, 2);
  EXPECT_EQ(facts.local_tasks.value, 1);
  EXPECT_EQ(facts.local_task.value, 0);
  EXPECT_EQ(facts.nodes.value, 2);
  EXPECT_EQ(facts.node.value, 1);
  EXPECT_EQ(facts.most_tasks.value, 2);
  EXPECT_EQ(facts.address.value, "n08");
  EXPECT_EQ(facts.host.value, "n09");
  EXPECT_EQ(facts.task.source, "SLURM_PROCID");
  EXPECT_EQ(facts.address.source, "SLURM_STEP_NODELIST");
}

TEST(EngineFactsTest, ABatchScriptOfSlurmIsNoStep) { EXPECT_FALSE(facts_of(kSlurmBatchScript)); }

TEST(EngineFactsTest, AHeterogeneousJobIsRefused) {
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_HET_SIZE", "2"}}),
            "SLURM_HET_SIZE: 2: heterogeneous jobs are not supported; give --nnodes, --node-rank "
            "and --master-addr");
}

TEST(EngineFactsTest, AnImpossibleValueIsAnErrorThatNamesTheVariable) {
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_PROCID", "x"}}),
            "SLURM_PROCID: 'x' is not a whole number");
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_NODEID", std::nullopt}}),
            "SLURM_NODEID: is not set, although Slurm started this process");
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}),
            "SLURM_STEP_TASKS_PER_NODE: '2(x' is not a list of numbers of tasks");
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_STEP_NODELIST", "n[8"}}),
            "SLURM_STEP_NODELIST: 'n[8' is not a list of hosts");
  EXPECT_EQ(error_of(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", std::nullopt}}),
            "OMPI_COMM_WORLD_RANK: is not set, although Open MPI started this process");
}

TEST(EngineFactsTest, OpenMpiSaysTheNodeOnlyIfThereIsOne) {
  const auto one_node = facts_of(kOpenMpi).value();
  EXPECT_EQ(one_node.engine, "Open MPI");
  EXPECT_EQ(one_node.id, "openmpi-prterun-vm-6757@1");
  EXPECT_EQ(one_node.tasks.value, 2);
  EXPECT_EQ(one_node.task.value, 1);
  EXPECT_EQ(one_node.local_task.value, 1);
  EXPECT_EQ(one_node.nodes.value, 1);
  EXPECT_EQ(one_node.address.value, "127.0.0.1");
  const auto more_nodes = facts_of(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}}).value();
  EXPECT_EQ(more_nodes.nodes.value, std::nullopt);
  EXPECT_EQ(more_nodes.address.value, std::nullopt);
}

// Hydra gives a run no name. Its process on the node is the same for all tasks there.
TEST(EngineFactsTest, MpichsRunIsNamedByItsProcessOnTheNode) {
  const auto one_node = facts_of(kMpich).value();
  EXPECT_EQ(one_node.engine, "MPICH");
  EXPECT_EQ(one_node.id, "mpich-7299");
  EXPECT_EQ(one_node.tasks.value, 2);
  EXPECT_EQ(one_node.task.value, 0);
  EXPECT_EQ(facts_of(kMpich, {{"PMI_SIZE", "4"}}).value().id, "") << "other nodes have another one";
  EXPECT_EQ(one_node.socket.value, 11);
  const auto closed = facts_of(kMpich, {{"PMI_FD", "3"}}).value();
  EXPECT_EQ(closed.id, "") << "not Hydra's socket";
  EXPECT_EQ(closed.socket.value, std::nullopt);
}

TEST(EngineFactsTest, MpirunInAStepOfSlurmIsTheEngine) {
  test::Variables both = kSlurmStep;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(facts_of(both).value().engine, "Open MPI");
}

TEST(EngineFactsTest, JsrunStartsOnTheSecondHostOfLsfsFile) {
  const Files files = {{"/home/me/.lsbatch/1.hostfile", kRankFileOfLsf}};
  const auto facts = facts_of(kJsrun, {}, files).value();
  EXPECT_EQ(facts.engine, "LSF") << "not Open MPI, although its variables are set";
  EXPECT_EQ(facts.job, "job 1234");
  EXPECT_EQ(facts.id, "lsf-1234-3");
  EXPECT_EQ(facts.tasks.value, 8);
  EXPECT_EQ(facts.task.value, 5);
  EXPECT_EQ(facts.local_tasks.value, 2);
  EXPECT_EQ(facts.local_task.value, 1);
  EXPECT_EQ(facts.address.value, "h07n01");
  EXPECT_EQ(facts.address.source, "LSB_DJOB_RANKFILE");
  EXPECT_EQ(facts_of(kJsrun, {{"PMIX_NAMESPACE", ""}}, files).value().id, "lsf-1234");
}

TEST(EngineFactsTest, WithoutASecondHostLsfDoesNotSayTheAddress) {
  EXPECT_EQ(facts_of(kJsrun).value().address.value, std::nullopt) << "no file";
  for (const char* text : {"", "batch5", "batch5\n", "batch5\n \n"}) {
    EXPECT_EQ(facts_of(kJsrun, {}, {{"/home/me/.lsbatch/1.hostfile", text}}).value().address.value,
              std::nullopt)
        << text;
  }
}

TEST(EngineFactsTest, TasksOfJsrunOnOneNodeNeedNoFile) {
  const auto facts = facts_of(kJsrun, {{"JSM_NAMESPACE_LOCAL_SIZE", "8"}}).value();
  EXPECT_EQ(facts.address.value, "127.0.0.1");
  EXPECT_EQ(facts.nodes.value, 1);
  EXPECT_EQ(error_of(kJsrun, {{"JSM_NAMESPACE_LOCAL_SIZE", std::nullopt}}),
            "JSM_NAMESPACE_LOCAL_SIZE: is not set, although jsrun started this process");
}

TEST(EngineFactsTest, MpirunInATaskOfJsrunIsTheEngine) {
  EXPECT_EQ(facts_of(kJsrun, {{"OMPI_COMM_WORLD_SIZE", "16"}}).value().engine, "Open MPI");
  EXPECT_EQ(facts_of(kJsrun, {{"OMPI_COMM_WORLD_RANK", "0"}}).value().engine, "Open MPI");
}

TEST(EngineFactsTest, PmixAloneIsRefused) {
  EXPECT_EQ(error_of(kPrterun, {}),
            "PMIX_RANK: PMIx started this process, and does not say how many tasks there are; give "
            "--nnodes, --node-rank and --master-addr, or --standalone to run on this node only");
  EXPECT_FALSE(facts_of(kPrterun, {{"PMIX_RANK", ""}}));
}

TEST(EngineFactsTest, APodOfAnIndexedJobKnowsItsIndexAndNode0) {
  const auto facts = facts_of(kIndexedJob, {}, {{"/etc/hosts", kHostsOfPod}}).value();
  EXPECT_EQ(facts.engine, "Kubernetes");
  EXPECT_EQ(facts.job, "Job train");
  EXPECT_EQ(facts.id, "kubernetes-train");
  EXPECT_EQ(facts.task.value, 2);
  EXPECT_EQ(facts.tasks.value, std::nullopt);
  EXPECT_EQ(facts.address.value, "train-0.workers.team.svc.cluster.local");
  EXPECT_EQ(facts.address.source, "/etc/hosts");
  EXPECT_TRUE(facts.has_own_host);
  EXPECT_EQ(error_of(kIndexedJob, {{"JOB_COMPLETION_INDEX", "x"}}),
            "JOB_COMPLETION_INDEX: 'x' is not a whole number");
  EXPECT_FALSE(facts_of(kIndexedJob, {{"JOB_COMPLETION_INDEX", std::nullopt}})) << "another pod";
}

TEST(EngineFactsTest, ThePodOfAJobSetHasTheIndexOfItsJobInItsName) {
  const std::string hosts =
      "# Kubernetes-managed hosts file.\n"
      "10.1.30.7\tset-workers-0-1.set.default.svc.cluster.local\tset-workers-0-1\n";
  const auto facts = facts_of(kIndexedJob,
                              {{"HOSTNAME", "set-workers-0-1.set.default.svc.cluster.local"},
                               {"JOB_COMPLETION_INDEX", "1"}},
                              {{"/etc/hosts", hosts}})
                         .value();
  EXPECT_EQ(facts.address.value, "set-workers-0-0.set.default.svc.cluster.local");
  EXPECT_EQ(facts.id, "kubernetes-set-workers-0");
}

// Only what the kubelet writes says the name.
TEST(EngineFactsTest, AnAddressIsNotGuessed) {
  const auto address = [](const test::Variables& changes, const std::string& hosts) {
    return facts_of(kIndexedJob, changes, {{"/etc/hosts", hosts}}).value().address.value;
  };
  const std::string header = "# Kubernetes-managed hosts file.\n";
  EXPECT_EQ(address({}, header + "10.1.30.129\ttrain-2\n"), std::nullopt) << "no subdomain";
  EXPECT_EQ(address({}, header), std::nullopt);
  EXPECT_EQ(address({}, header + "10.1.30.129\ttrain-2.workers\ttrain-2"), std::nullopt) << "cut";
  EXPECT_EQ(address({}, "10.1.30.129\ttrain-2.workers\ttrain-2\n"), std::nullopt)
      << "not kubelet's";
  EXPECT_EQ(address({{"HOSTNAME", "node-17"}}, kHostsOfPod), std::nullopt)
      << "the machine's network";
  EXPECT_EQ(address({{"HOSTNAME", std::nullopt}}, kHostsOfPod), std::nullopt);
  EXPECT_EQ(address({{"HOSTNAME", "-2"}}, kHostsOfPod), std::nullopt);
  EXPECT_EQ(address({{"HOSTNAME", "train-12"}}, kHostsOfPod), std::nullopt) << "another index";
  EXPECT_EQ(facts_of(kIndexedJob).value().address.value, std::nullopt) << "no file";
}

TEST(EngineFactsTest, EnginesInAPodCountFirst) {
  for (const auto& [variables, engine] :
       {std::pair(kJsrun, "LSF"), std::pair(kOpenMpi, "Open MPI"), std::pair(kMpich, "MPICH"),
        std::pair(kSlurmStep, "Slurm")}) {
    EXPECT_EQ(facts_of(variables, kIndexedJob).value().engine, engine);
    EXPECT_EQ(facts_of(variables, kPrterun).value().engine, engine) << "PMIx's variables, too";
  }
  EXPECT_THAT(error_of(kPrterun, kIndexedJob), ::testing::StartsWith("PMIX_RANK: "));
}

TEST(EngineFactsTest, NumbersBeyondTheirCountAreErrors) {
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_PROCID", "3"}}),
            "SLURM_PROCID: 3 is not less than SLURM_STEP_NUM_TASKS 3");
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_NODEID", "2"}}),
            "SLURM_NODEID: 2 is not less than SLURM_STEP_NUM_NODES 2");
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_LOCALID", "1"}}),
            "SLURM_LOCALID: 1 is not less than SLURM_STEP_TASKS_PER_NODE 1");
  EXPECT_EQ(error_of(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
            "OMPI_COMM_WORLD_LOCAL_RANK: 2 is not less than OMPI_COMM_WORLD_LOCAL_SIZE 2");
  EXPECT_EQ(error_of(kMpich, {{"PMI_SIZE", "2147483647"}}),
            "PMI_SIZE: 2147483647 is not between 1 and 1000000");
}

TEST(EngineFactsTest, AnEmptyVariableIsNotSet) {
  EXPECT_EQ(facts_of(kSlurmStep, {{"SLURM_HET_SIZE", ""}}).value().tasks.value, 3);
  EXPECT_FALSE(facts_of(kSlurmStep, {{"SLURM_STEP_NUM_TASKS", ""}}));
  EXPECT_EQ(error_of(kSlurmStep, {{"SLURM_PROCID", ""}}),
            "SLURM_PROCID: is not set, although Slurm started this process");
}

TEST(EngineFactsTest, WithAnArbitraryDistributionTask0MayBeOnAnyHost) {
  EXPECT_EQ(facts_of(kSlurmStep, {{"SLURM_DISTRIBUTION", "cyclic"}}).value().address.value, "n08");
  EXPECT_EQ(facts_of(kSlurmStep, {{"SLURM_DISTRIBUTION", "arbitrary"}}).value().address.value,
            std::nullopt);
}

TEST(EngineFactsTest, ThePortDependsOnTheRun) {
  EngineFacts facts{.id = "slurm-77.0"};
  const int port = port_of(facts);
  EXPECT_GE(port, 20000);
  EXPECT_LT(port, 30000);
  facts.id = "slurm-77.1";
  EXPECT_NE(port_of(facts), port);
}

}  // namespace
}  // namespace distrun
