// Pipelines whose stages are replicated or sharded, on a mesh of two dimensions.
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "distrun/device_mesh.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "parallel/pipeline/test/pipeline_multirank_fixture.h"

namespace distrun {
namespace {

// Counts the reductions of FullyShardedDataParallel in "gloo" while it lives.
class ReductionCount {
 public:
  ReductionCount() { calls = 0; }
  ~ReductionCount() { at::removeCallback(handle_); }
  ReductionCount(const ReductionCount&) = delete;
  ReductionCount& operator=(const ReductionCount&) = delete;

  static inline std::atomic<int> calls = 0;

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& function) {
    const std::string name = function.name();
    // Which of them depends on the backend.
    if (name == "c10d::alltoall_base_" || name == "c10d::_reduce_scatter_base_") ++calls;
    return nullptr;
  }
  at::CallbackHandle handle_ =
      at::addGlobalCallback(at::RecordFunctionCallback(see).scopes({at::RecordScope::FUNCTION}));
};

class PipelineMeshMultirankTest : public PipelineFixture {
 protected:
  // Calls `act` for each mesh of pipelines.
  static void for_each_mesh(const std::function<void(const DeviceMesh&)>& act) {
    const int ranks = get_world_size();
    for (int stages = 1; stages <= ranks; ++stages) {
      if (ranks % stages != 0) continue;
      SCOPED_TRACE("stages " + std::to_string(stages));
      act(init_device_mesh(at::kCPU, {ranks / stages, stages}, {"dp", "pp"}));
    }
  }

  static at::Tensor batch_of(int replica, int step) { return batch(6, step + 10 * replica); }
  static at::Tensor target_of(int replica, int step) { return target(6, step + 10 * replica); }

  template <class Schedule>
  static void step(Schedule& schedule, const DeviceMesh& mesh, int step) {
    const int replica = mesh.get_local_rank("dp");
    schedule.step({.args = {batch_of(replica, step)}, .target = target_of(replica, step)});
  }
  // The mean over the batches of all replicas.
  static void step_of_all(const WholeNet& whole, const DeviceMesh& mesh, int step,
                          int microbatches) {
    const auto replicas = static_cast<int>(mesh.size(0));
    for (int i = 0; i < replicas; ++i) {
      whole.step(batch_of(i, step), target_of(i, step), microbatches, true, mean_loss);
    }
    for (const at::Tensor& one : whole.parameters()) one.mutable_grad().div_(replicas);
  }

  template <class Schedule>
  static void expect_replicated_training(const DeviceMesh& mesh, int microbatches,
                                         const DdpOptions& options = {}) {
    const int index = mesh.get_local_rank("pp"), stages = static_cast<int>(mesh.size(1));
    DdpOptions its = options;
    its.process_group = mesh.get_group("dp");
    const auto ddp = std::make_shared<DistributedDataParallel<StageNet>>(StageNet(index), its);
    const PipelineStage stage(ddp, index, stages, {.group = mesh.get_group("pp")});
    Schedule schedule(stage, microbatches, mean_loss);
    const WholeNet whole(stages);
    torch::optim::Adam mine(ddp->parameters(), 0.05), others(whole.parameters(), 0.05);
    for (int i = 0; i < 4; ++i) {
      ddp->zero_grad();
      others.zero_grad();
      const auto before = get_sequence_number(mesh.get_group("dp"));
      step(schedule, mesh, i);
      step_of_all(whole, mesh, i, microbatches);
      expect_same_parameters(*ddp->module(), whole.stage(index));
      // Only one all_reduce, of the only bucket, after the first steps.
      if (i > 1 && !options.find_unused_parameters) {
        EXPECT_EQ(get_sequence_number(mesh.get_group("dp")) - before, 1u);
      }
      mine.step();
      others.step();
    }
    expect_same_parameters(*ddp->module(), whole.stage(index));
  }

  template <class Schedule>
  static void expect_sharded_training(const DeviceMesh& mesh, int microbatches,
                                      const FsdpOptions& options = {}) {
    const int index = mesh.get_local_rank("pp"), stages = static_cast<int>(mesh.size(1));
    FsdpOptions its = options;
    its.process_group = mesh.get_group("dp");
    const auto fsdp = std::make_shared<FullyShardedDataParallel<StageNet>>(StageNet(index), its);
    const PipelineStage stage(fsdp, index, stages, {.group = mesh.get_group("pp")});
    Schedule schedule(stage, microbatches, mean_loss);
    const WholeNet whole(stages);
    torch::optim::Adam mine(fsdp->parameters(), 0.05), others(whole.parameters(), 0.05);
    for (int i = 0; i < 4; ++i) {
      mine.zero_grad();
      others.zero_grad();
      const ReductionCount reductions;
      step(schedule, mesh, i);
      EXPECT_EQ(ReductionCount::calls, mesh.size(0) > 1 ? 1 : 0);
      step_of_all(whole, mesh, i, microbatches);
      mine.step();
      others.step();
    }
    const FsdpState state = fsdp->full_state_dict();
    for (const auto& one : whole.stage(index).named_parameters()) {
      expect_near(state[one.key()], one.value().detach(), one.key());
    }
  }
};

TEST_F(PipelineMeshMultirankTest, ReplicatedStagesReduceGradientsOnceAStep) {
  for_each_mesh([](const DeviceMesh& mesh) {
    expect_replicated_training<ScheduleGPipe>(mesh, 3);
    expect_replicated_training<Schedule1F1B>(mesh, 3);
    expect_replicated_training<Schedule1F1B>(mesh, 1);
  });
}

TEST_F(PipelineMeshMultirankTest, ReplicatedStagesCanHaveOptions) {
  for_each_mesh([](const DeviceMesh& mesh) {
    expect_replicated_training<Schedule1F1B>(mesh, 3, {.find_unused_parameters = true});
    expect_replicated_training<Schedule1F1B>(mesh, 3, {.gradient_as_bucket_view = true});
  });
}

TEST_F(PipelineMeshMultirankTest, ShardedStagesReduceGradientsOnceAStep) {
  for_each_mesh([](const DeviceMesh& mesh) {
    for (const bool reshards : {true, false}) {
      const FsdpOptions options = {.reshard_after_forward = reshards};
      expect_sharded_training<Schedule1F1B>(mesh, 3, options);
      expect_sharded_training<ScheduleGPipe>(mesh, 4, options);
      expect_sharded_training<ScheduleGPipe>(mesh, 1, options);
    }
  });
}

}  // namespace
}  // namespace distrun
