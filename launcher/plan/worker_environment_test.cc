#include "launcher/plan/worker_environment.h"

#include <string>

#include <gtest/gtest.h>

#include "common/operations/operation_page.h"

namespace distrun {
namespace {

Environment environment_of(std::size_t index, int workers, const Environment& inherited = {}) {
  const LaunchOptions options{
      .nproc_per_node = workers, .role = "trainer", .run_id = "run-7", .master_addr = "127.0.0.9"};
  const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, inherited).value();
  return worker_environment(plan, plan.workers[index],
                            {.store_port = 29500, .error_folder = "/tmp/errors"});
}

constexpr const char* kInitMethod = "file:///scratch/meet";

Environment environment_with_file(const Environment& inherited) {
  const LaunchOptions options{.nproc_per_node = 2,
                              .store = {StoreChoice::Kind::kFile, "/scratch/meet"}};
  const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, inherited).value();
  return worker_environment(plan, plan.workers[1],
                            {.init_method = kInitMethod, .error_folder = "/tmp/errors"});
}

// What torchrun 2.13 sets for worker 2 of 4, and distrun's own variable.
TEST(WorkerEnvironmentTest, SetsTorchrunsVariables) {
  const std::pair<const char*, const char*> expected[] = {
      {"DISTRUN_STORE", "127.0.0.9:29500"},
      {"GROUP_RANK", "0"},
      {"GROUP_WORLD_SIZE", "1"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"MASTER_ADDR", "127.0.0.9"},
      {"MASTER_PORT", "29500"},
      {"OMP_NUM_THREADS", "1"},
      {"RANK", "2"},
      {"ROLE_NAME", "trainer"},
      {"ROLE_RANK", "2"},
      {"ROLE_WORLD_SIZE", "4"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/errors/attempt_0_2_error.json"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_RUN_ID", "run-7"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCH_FR_DUMP_TEMP_FILE", "/tmp/errors/attempt_0_nccl_trace_rank_"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/tmp/errors/attempt_0_nccl_trace_rank_"},
      {"WORLD_SIZE", "4"},
  };
  const Environment environment = environment_of(2, 4);
  for (const auto& [name, value] : expected) EXPECT_EQ(environment.get(name), value) << name;
  EXPECT_EQ(environment.variables().size(), std::size(expected));
}

TEST(WorkerEnvironmentTest, HangAfterSilencesNccl) {
  const auto ras = [](const LaunchOptions& options, const Environment& inherited) {
    const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, inherited).value();
    return worker_environment(plan, plan.workers[0], {}).get("NCCL_RAS_ENABLE");
  };
  EXPECT_EQ(ras({}, {}), std::nullopt);
  EXPECT_EQ(ras({.hang_after = std::chrono::seconds(9)}, {}), "0");
  Environment inherited;
  inherited.set("NCCL_RAS_ENABLE", "1");
  EXPECT_EQ(ras({.hang_after = std::chrono::seconds(9)}, inherited), "1");
}

TEST(WorkerEnvironmentTest, KeepsTheUsersFilesOfTheFlightRecorder) {
  Environment inherited;
  inherited.set("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/mine/ask_");
  inherited.set("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/mine/dump_");
  const Environment environment = environment_of(1, 2, inherited);
  EXPECT_EQ(environment.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"), "/mine/ask_");
  EXPECT_EQ(environment.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), "/mine/dump_");
  EXPECT_EQ(environment.get("TORCH_FR_DUMP_TEMP_FILE"), std::nullopt);

  const LaunchPlan plan =
      make_plan({.nproc_per_node = 2}, {"/bin/true", {"true"}}, inherited).value();
  const auto files = flight_files(plan, {.error_folder = "/tmp/errors"}, plan.workers[1]);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->pipe, "/mine/ask_1.pipe");
  EXPECT_EQ(files->dump, "/mine/dump_1");
}

TEST(WorkerEnvironmentTest, ANestedRunHasItsOwnFilesOfTheFlightRecorder) {
  const Environment outer = environment_of(1, 2);
  const LaunchPlan plan = make_plan({.nproc_per_node = 1}, {"/bin/true", {"true"}}, outer).value();
  const RunPlace place{.error_folder = "/tmp/inner"};
  const Environment inner = worker_environment(plan, plan.workers[0], place);
  EXPECT_EQ(inner.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE"), "/tmp/inner/attempt_0_nccl_trace_rank_");
  EXPECT_EQ(inner.get("TORCH_FR_DUMP_TEMP_FILE"), "/tmp/inner/attempt_0_nccl_trace_rank_");
  EXPECT_EQ(flight_files(plan, place, plan.workers[0])->dump,
            "/tmp/inner/attempt_0_nccl_trace_rank_0");
}

TEST(WorkerEnvironmentTest, TheFlightRecorderHasFilesOfItsOwnInEachAttempt) {
  LaunchOptions options{.nproc_per_node = 1};
  const auto dump = [&](int attempt) {
    const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, {}).value();
    return flight_files(plan, {.attempt = attempt, .error_folder = "/logs"}, plan.workers[0])->dump;
  };
  EXPECT_EQ(dump(2), "/logs/attempt_2_nccl_trace_rank_0");
  options.log.folder = "/logs";
  EXPECT_EQ(dump(2), "/logs/attempt_2/nccl_trace_rank_0");
  const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, {}).value();
  EXPECT_EQ(flight_files(plan, {}, plan.workers[0]), std::nullopt);
}

TEST(WorkerEnvironmentTest, SetsRanksForSeveralNodes) {
  const LaunchOptions options{.nproc_per_node = 2, .nnodes = 3, .node_rank = 1};
  LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, {}).value();
  place_ranks(plan, {.rank_base = 4, .world_size = 9, .role_rank_base = 1, .role_world_size = 3});
  const Environment environment =
      worker_environment(plan, plan.workers[1], {.store_port = 29500, .error_folder = "/tmp"});
  const std::pair<const char*, const char*> expected[] = {
      {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"RANK", "5"},
      {"WORLD_SIZE", "9"}, {"ROLE_RANK", "2"},        {"ROLE_WORLD_SIZE", "3"},
      {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "3"},
  };
  for (const auto& [name, value] : expected) EXPECT_EQ(environment.get(name), value) << name;
}

TEST(WorkerEnvironmentTest, SetsTheInterfaceUnlessTheUserDid) {
  Environment inherited;
  inherited.set("GLOO_SOCKET_IFNAME", "ib0");
  const LaunchPlan plan = make_plan({}, {"/bin/true", {"true"}}, inherited).value();
  const Environment named = worker_environment(plan, plan.workers[0], {.interface = "eth1"});
  EXPECT_EQ(named.get("GLOO_SOCKET_IFNAME"), "ib0");
  EXPECT_EQ(named.get("NCCL_SOCKET_IFNAME"), "=eth1");
  const Environment alone = worker_environment(plan, plan.workers[0], {});
  EXPECT_EQ(alone.get("NCCL_SOCKET_IFNAME"), std::nullopt);
}

TEST(WorkerEnvironmentTest, SaysWhereAndHowToRecordCollectives) {
  const LaunchOptions options{.nproc_per_node = 2};
  Environment outer;
  outer.set("DISTRUN_OPERATIONS", "/proc/1/fd/5:0");
  outer.set("DISTRUN_DIGEST", "all");
  outer.set("DISTRUN_COLLECTIVES", "1");
  LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, outer).value();
  Environment environment = worker_environment(plan, plan.workers[1], {});
  for (const char* name : {"DISTRUN_OPERATIONS", "DISTRUN_DIGEST", "DISTRUN_COLLECTIVES"}) {
    EXPECT_EQ(environment.get(name), std::nullopt) << name;
  }
  plan.options.digest = true;
  environment = worker_environment(plan, plan.workers[1], {.operations = "/proc/7/fd/9"});
  EXPECT_EQ(environment.get("DISTRUN_OPERATIONS"),
            "/proc/7/fd/9:" + std::to_string(sizeof(OperationPage)));
  EXPECT_EQ(environment.get("DISTRUN_DIGEST"), "outputs");
  EXPECT_EQ(environment.get("DISTRUN_COLLECTIVES"), "1");
  plan.options.digest_inputs = true;
  environment = worker_environment(plan, plan.workers[1], {.operations = "/proc/7/fd/9"});
  EXPECT_EQ(environment.get("DISTRUN_DIGEST"), "all");
}

TEST(WorkerEnvironmentTest, InheritsOtherVariables) {
  Environment inherited;
  inherited.set("HOME", "/home/me");
  inherited.set("RANK", "stale");
  const Environment environment = environment_of(1, 2, inherited);
  EXPECT_EQ(environment.get("HOME"), "/home/me");
  EXPECT_EQ(environment.get("RANK"), "1");
}

TEST(WorkerEnvironmentTest, SetsInitMethodForAFileStore) {
  const Environment environment = environment_with_file({});
  EXPECT_EQ(environment.get("DISTRUN_INIT_METHOD"), kInitMethod);
  EXPECT_EQ(environment.get("TORCHELASTIC_USE_AGENT_STORE"), "False");
  EXPECT_EQ(environment.get("RANK"), "1");
  EXPECT_EQ(environment.get("WORLD_SIZE"), "2");
}

TEST(WorkerEnvironmentTest, PassesOnSignalsAndRestarts) {
  Environment inherited;
  inherited.set("TORCHELASTIC_SIGNALS_TO_HANDLE", "stale");
  const LaunchOptions options{.max_restarts = 3, .end_signals = {SIGTERM, SIGUSR2}};
  const LaunchPlan plan = make_plan(options, {"/bin/true", {"true"}}, inherited).value();
  const Environment environment = worker_environment(plan, plan.workers[0], {});
  EXPECT_EQ(environment.get("TORCHELASTIC_SIGNALS_TO_HANDLE"), "SIGTERM,SIGUSR2");
  EXPECT_EQ(environment.get("TORCHELASTIC_MAX_RESTARTS"), "3");
}

TEST(WorkerEnvironmentTest, VirtualLocalRankShowsOneDeviceToEachWorker) {
  const LaunchOptions options{.nproc_per_node = 3, .virtual_local_rank = true};
  Environment inherited;
  const Command command{"/bin/true", {"true"}};
  const LaunchPlan plain = make_plan(options, command, inherited).value();
  EXPECT_EQ(worker_environment(plain, plain.workers[2], {}).get("LOCAL_RANK"), "0");
  EXPECT_EQ(worker_environment(plain, plain.workers[2], {}).get("RANK"), "2");
  EXPECT_EQ(worker_environment(plain, plain.workers[2], {}).get("CUDA_VISIBLE_DEVICES"), "2");

  inherited.set("CUDA_VISIBLE_DEVICES", "4, GPU-1,7");
  const LaunchPlan mapped = make_plan(options, command, inherited).value();
  EXPECT_EQ(worker_environment(mapped, mapped.workers[0], {}).get("CUDA_VISIBLE_DEVICES"), "4");
  EXPECT_EQ(worker_environment(mapped, mapped.workers[1], {}).get("CUDA_VISIBLE_DEVICES"), "GPU-1");
  EXPECT_EQ(worker_environment(mapped, mapped.workers[2], {}).get("CUDA_VISIBLE_DEVICES"), "7");

  inherited.set("CUDA_VISIBLE_DEVICES", "4,5");
  EXPECT_TRUE(make_plan(options, command, inherited).has_error());
}

TEST(WorkerEnvironmentTest, InheritsDevicesWithoutVirtualLocalRank) {
  Environment inherited;
  inherited.set("CUDA_VISIBLE_DEVICES", "4,5");
  EXPECT_EQ(environment_of(1, 2, inherited).get("CUDA_VISIBLE_DEVICES"), "4,5");
}

TEST(WorkerEnvironmentTest, ChangesHoldOnlyWhatIsNotInherited) {
  Environment inherited;
  inherited.set("HOME", "/home/me");
  inherited.set("RANK", "0");
  inherited.set("DISTRUN_INIT_METHOD", "file:///outer");
  inherited.set("OMP_NUM_THREADS", "6");
  const LaunchPlan plan =
      make_plan({.nproc_per_node = 2}, {"/bin/true", {"true"}}, inherited).value();
  const VariableChanges changes = worker_variables(plan, plan.workers[0], {});
  EXPECT_FALSE(changes.contains("HOME"));
  EXPECT_FALSE(changes.contains("OMP_NUM_THREADS"));
  EXPECT_EQ(changes.at("RANK"), "0");
  EXPECT_EQ(changes.at("DISTRUN_INIT_METHOD"), std::nullopt);
}

TEST(WorkerEnvironmentTest, NestedRunDoesNotInheritTheOuterStore) {
  Environment inherited;
  inherited.set("MASTER_ADDR", "127.0.0.1");
  inherited.set("MASTER_PORT", "29500");
  inherited.set("DISTRUN_INIT_METHOD", "file:///outer");
  inherited.set("DISTRUN_STORE", "127.0.0.1:1");
  EXPECT_EQ(environment_of(0, 2, inherited).get("DISTRUN_INIT_METHOD"), std::nullopt);
  const Environment environment = environment_with_file(inherited);
  EXPECT_EQ(environment.get("MASTER_ADDR"), std::nullopt);
  EXPECT_EQ(environment.get("MASTER_PORT"), std::nullopt);
  EXPECT_EQ(environment.get("DISTRUN_STORE"), std::nullopt);
  EXPECT_EQ(environment.get("DISTRUN_INIT_METHOD"), kInitMethod);
}

TEST(WorkerEnvironmentTest, LimitsThreadsOnlyForSeveralWorkersIfUnset) {
  EXPECT_EQ(environment_of(0, 1).get("OMP_NUM_THREADS"), std::nullopt);
  Environment inherited;
  inherited.set("OMP_NUM_THREADS", "6");
  EXPECT_EQ(environment_of(0, 2, inherited).get("OMP_NUM_THREADS"), "6");
}

}  // namespace
}  // namespace distrun
