#include "launcher/engines/engine_place.h"

#include <map>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

EngineFacts slurm(int tasks, int task, int nodes, int local_tasks, int most_tasks) {
  return {.engine = "Slurm",
          .job = "job 77, step 0",
          .id = "slurm-77.0",
          .tasks = {tasks, "SLURM_STEP_NUM_TASKS"},
          .task = {task, "SLURM_PROCID"},
          .local_tasks = {local_tasks, "SLURM_STEP_TASKS_PER_NODE"},
          .local_task = {task % local_tasks, "SLURM_LOCALID"},
          .nodes = {nodes, "SLURM_STEP_NUM_NODES"},
          .node = {task / local_tasks, "SLURM_NODEID"},
          .most_tasks = {most_tasks, "SLURM_STEP_TASKS_PER_NODE"},
          .address = {"n0", "SLURM_STEP_NODELIST"}};
}

std::map<std::string, std::string> flags_of(const EnginePlace& place) {
  std::map<std::string, std::string> flags;
  for (const EngineFlag& each : place.flags) flags[each.name] = each.value;
  return flags;
}

std::string error_of(const EngineFacts& facts, const GivenPlace& given) {
  const auto place = place_of(facts, given);
  return place ? "" : place.error().message;
}

TEST(EnginePlaceTest, OneTaskOnEachNodeIsItsAgent) {
  const EngineFacts facts = slurm(4, 3, 4, 1, 1);
  const auto place = place_of(facts, {}).value();
  EXPECT_EQ(place.mode, EngineMode::kAgent);
  EXPECT_FALSE(place.task);
  EXPECT_THAT(
      flags_of(place),
      ElementsAre(Pair("master-addr", "n0"), Pair("master-port", std::to_string(port_of(facts))),
                  Pair("nnodes", "4"), Pair("node-rank", "3"), Pair("rdzv-id", "slurm-77.0")));
  for (const EngineFlag& flag : place.flags) EXPECT_NE(flag.source, "") << flag.name;
}

TEST(EnginePlaceTest, SeveralTasksOnANodeAreRanks) {
  const auto place = place_of(slurm(4, 3, 2, 2, 2), {}).value();
  EXPECT_EQ(place.mode, EngineMode::kRank);
  EXPECT_EQ(flags_of(place).at("nnodes"), "4") << "each rank has a distrun";
  EXPECT_EQ(flags_of(place).at("node-rank"), "3");
  EXPECT_EQ(place.task->local_rank, 1);
  EXPECT_EQ(place.task->local_ranks, 2);
  EXPECT_EQ(place.task->node, 1);
  EXPECT_EQ(place.task->nodes, 2);
}

TEST(EnginePlaceTest, ATaskAloneOnItsNodeIsARankIfAnotherNodeHasMore) {
  EXPECT_EQ(place_of(slurm(3, 2, 2, 1, 2), {}).value().mode, EngineMode::kRank);
}

TEST(EnginePlaceTest, WithoutTheCountsOfOtherNodesThisNodesDecides) {
  EngineFacts facts = slurm(4, 3, 2, 2, 2);
  facts.most_tasks = {};
  EXPECT_EQ(place_of(facts, {}).value().mode, EngineMode::kRank);
  facts.local_tasks = {1, "x"};
  EXPECT_EQ(place_of(facts, {}).value().mode, EngineMode::kAgent);
}

TEST(EnginePlaceTest, TheAddressMustReachOtherNodes) {
  const GivenPlace given{.has_address = true,
                         .loopback = GivenPlace::Flag{"--master-addr", "127.0.0.1"}};
  EXPECT_EQ(error_of(slurm(8, 3, 2, 4, 4), given),
            "--master-addr 127.0.0.1 is a loopback address, but Slurm started 8 tasks on 2 "
            "nodes: give an address of task 0 that the other nodes can reach, or remove "
            "--master-addr");
  EXPECT_EQ(error_of(slurm(4, 3, 1, 4, 4), given), "") << "all tasks are on this node";
  EngineFacts mpi = slurm(8, 3, 2, 4, 4);
  mpi.engine = "MPICH";
  mpi.nodes = mpi.node = mpi.most_tasks = {};
  mpi.address = {};
  EXPECT_EQ(error_of(mpi, given),
            "--master-addr 127.0.0.1 is a loopback address, but MPICH started 8 tasks, and "
            "not all of them on this node: give an address of task 0 that the other nodes can "
            "reach");
  mpi.local_tasks = {8, "MPI_LOCALNRANKS"};
  EXPECT_EQ(error_of(mpi, given), "");
}

TEST(EnginePlaceTest, WhatTheUserGaveStays) {
  const auto place =
      place_of(slurm(4, 3, 4, 1, 1), {.has_address = true, .has_port = true, .has_id = true})
          .value();
  EXPECT_THAT(flags_of(place), ElementsAre(Pair("nnodes", "4"), Pair("node-rank", "3")));
}

TEST(EnginePlaceTest, ARunOfOneNodeIsNotPlaced) {
  const EngineFacts facts = slurm(4, 3, 4, 1, 1);
  const auto reason = [&](const EngineFacts& engine, const GivenPlace& given) {
    const auto place = place_of(engine, given).value();
    EXPECT_EQ(place.mode, EngineMode::kAlone);
    EXPECT_THAT(place.flags, IsEmpty());
    return place.reason;
  };
  EXPECT_EQ(reason(facts, {.is_alone = true}), "--standalone is given");
  EXPECT_EQ(reason(facts, {.nodes = {{"PET_NNODES", "1"}}}), "PET_NNODES is 1");
  EXPECT_EQ(reason(facts, {.node = {{"--node-rank", "0"}}}), "--node-rank is given");
  EXPECT_EQ(reason(slurm(1, 0, 1, 1, 1), {}), "Slurm started one task");
}

TEST(EnginePlaceTest, AnotherNumberOfNodesIsAContradiction) {
  EXPECT_EQ(error_of(slurm(4, 3, 4, 1, 1), {.nodes = {{"--nnodes", "2"}}}),
            "--nnodes 2, but Slurm started 4 tasks on 4 nodes: remove --nnodes");
  EXPECT_EQ(error_of(slurm(4, 3, 4, 1, 1), {.nodes = {{"--nnodes", "4"}}}), "");
  EXPECT_EQ(error_of(slurm(4, 3, 2, 2, 2), {.nodes = {{"--nnodes", "2"}}}), "") << "not of ranks";
}

TEST(EnginePlaceTest, SeveralWorkersForATaskThatIsARankAreAContradiction) {
  EXPECT_EQ(error_of(slurm(8, 3, 2, 4, 4), {.workers = {{"--nproc-per-node", "8"}}}),
            "--nproc-per-node 8, but Slurm started 8 tasks on 2 nodes, 4 of them on this node: "
            "start one task on each node (srun --ntasks-per-node=1), or remove --nproc-per-node to "
            "run one worker per task");
  EXPECT_EQ(error_of(slurm(8, 3, 2, 4, 4), {.workers = {{"--nproc-per-node", "1"}}}), "");
  EXPECT_EQ(error_of(slurm(2, 1, 2, 1, 1), {.workers = {{"--nproc-per-node", "8"}}}), "");
}

TEST(EnginePlaceTest, TestsNeedOneTaskOnEachNode) {
  const GivenPlace given{.tasks_of_node = TasksOfNode::kOne};
  EXPECT_EQ(place_of(slurm(4, 3, 4, 1, 1), given).value().mode, EngineMode::kAgent);
  EXPECT_EQ(place_of(slurm(1, 0, 1, 1, 1), given).value().mode, EngineMode::kAlone);
  EXPECT_EQ(error_of(slurm(8, 3, 2, 4, 4), given),
            "Slurm started 8 tasks on 2 nodes, 4 of them on this node, but tests need one task on "
            "each node: start one (srun --ntasks-per-node=1), or give --nnodes 1 to run all tests "
            "in each task");
  EXPECT_EQ(error_of(slurm(8, 3, 2, 4, 4),
                     {.nodes = {{"--nnodes", "1"}}, .tasks_of_node = TasksOfNode::kOne}),
            "");
  for (const auto& [engine, command] :
       {std::pair("Open MPI", "mpirun --map-by ppr:1:node"), std::pair("MPICH", "mpiexec -ppn 1"),
        std::pair("LSF", "jsrun --rs_per_host 1 --tasks_per_rs 1")}) {
    EngineFacts facts = slurm(8, 3, 2, 4, 4);
    facts.engine = engine;
    facts.address = {};  // Its lack is not said first.
    EXPECT_THAT(error_of(facts, given), HasSubstr(std::string("start one (") + command + ")"));
  }
}

TEST(EnginePlaceTest, WithoutAnAddressTheUserHasToGiveOne) {
  EngineFacts facts = slurm(8, 3, 2, 4, 4);
  facts.engine = "Open MPI";
  facts.nodes = facts.node = {};
  facts.address = {};
  EXPECT_EQ(error_of(facts, {}),
            "Open MPI started 8 tasks, and does not say where task 0 runs: give --master-addr "
            "HOST");
  EXPECT_EQ(error_of(facts, {.has_address = true}), "");
}

TEST(EnginePlaceTest, WithoutANameOfTheRunTheUserHasToGiveAPort) {
  EngineFacts facts = slurm(2, 1, 1, 2, 2);
  facts.engine = "MPICH";
  facts.id = "";
  EXPECT_EQ(error_of(facts, {}),
            "MPICH started 2 tasks on 1 node, and gives this run no name: give --master-port PORT, "
            "which no other run uses");
  EXPECT_EQ(error_of(facts, {.has_port = true}), "");
}

EngineFacts pod(int index) {
  return {.engine = "Kubernetes",
          .job = "Job train",
          .id = "kubernetes-train",
          .task = {index, "JOB_COMPLETION_INDEX"},
          .local_tasks = {1, "JOB_COMPLETION_INDEX"},
          .local_task = {0, "JOB_COMPLETION_INDEX"},
          .most_tasks = {1, "JOB_COMPLETION_INDEX"},
          .address = {"train-0.workers", "/etc/hosts"},
          .has_own_host = true};
}

// An Indexed Job also runs independent tasks.
TEST(EnginePlaceTest, PodsAreOneRunOnlyIfTheUserSaysHowManyThereAre) {
  const auto alone = place_of(pod(2), {}).value();
  EXPECT_EQ(alone.mode, EngineMode::kAlone);
  EXPECT_EQ(alone.reason,
            "Kubernetes does not say how many pods there are; to run on N of them, give --nnodes "
            "N");
  EXPECT_THAT(alone.flags, IsEmpty());
  const auto place = place_of(pod(2), {.nodes = GivenPlace::Flag{"--nnodes", "4"}}).value();
  EXPECT_EQ(place.mode, EngineMode::kAgent);
  EXPECT_EQ(place.node, 2);
  EXPECT_EQ(place.nodes, 4);
  // A pod has its own address, so the default port is free.
  EXPECT_THAT(flags_of(place),
              ElementsAre(Pair("master-addr", "train-0.workers"), Pair("node-rank", "2"),
                          Pair("rdzv-id", "kubernetes-train")));
}

TEST(EnginePlaceTest, PodsThatCannotBeOneRunAreErrors) {
  const GivenPlace two = {.nodes = GivenPlace::Flag{"PET_NNODES", "2"}};
  EXPECT_EQ(error_of(pod(2), two),
            "PET_NNODES 2, but JOB_COMPLETION_INDEX is 2: give the number of pods as PET_NNODES");
  EngineFacts facts = pod(1);
  facts.address = {};
  EXPECT_EQ(error_of(facts, two),
            "Kubernetes started this pod without a subdomain, so the address of node 0 is unknown: "
            "set the subdomain to a headless service, or give --master-addr HOST");
  EXPECT_TRUE(tells_error(facts)) << "each pod has its own log";
  facts.id = "";
  EXPECT_EQ(error_of(facts, {.nodes = two.nodes, .has_address = true}), "");
  EXPECT_EQ(error_of(pod(1), {.nodes = two.nodes,
                              .has_address = true,
                              .loopback = GivenPlace::Flag{"--master-addr", "127.0.0.1"}}),
            "--master-addr 127.0.0.1 is a loopback address, but Kubernetes started this pod: give "
            "an address of task 0 that the other nodes can reach, or remove --master-addr");
}

TEST(EnginePlaceTest, OneTaskTellsAnErrorThatAllTasksHave) {
  EngineFacts facts = slurm(4, 0, 2, 2, 2);
  EXPECT_TRUE(tells_error(facts));
  facts.task = {2, "x"};
  EXPECT_FALSE(tells_error(facts));
  facts.most_tasks = {};  // Other nodes may have other counts, and no error.
  EXPECT_TRUE(tells_error(facts));
  facts.local_task = {1, "x"};
  EXPECT_FALSE(tells_error(facts));
  facts.aborts = true;
  EXPECT_TRUE(tells_error(facts));
}

}  // namespace
}  // namespace distrun
