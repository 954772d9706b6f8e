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
using test::kMpich;
using test::kOpenMpi;
using test::kSlurmBatchScript;
using test::kSlurmStep;

constexpr int kHydra = 7299;
std::optional<int> hydra_at(int descriptor) {
  return descriptor == 11 ? std::optional<int>(kHydra) : std::nullopt;
}

std::optional<EngineFacts> facts_of(const test::Variables& variables,
                                    const test::Variables& changes = {}) {
  return engine_facts(environment_of(variables, changes), hydra_at).value();
}

std::string error_of(const test::Variables& variables, const test::Variables& changes) {
  const auto facts = engine_facts(environment_of(variables, changes), hydra_at);
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
