#include "distrun/ddp_reducer.h"

#include <utility>

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "distrun/process_group.h"
#include "parallel/ddp/checked_comm_hook.h"
#include "parallel/ddp/ddp_core.h"
#include "parallel/ddp/ddp_join_hook.h"
#include "parallel/ddp/ddp_sink.h"
#include "parallel/ddp/model_sync.h"

namespace distrun {

namespace {

void check_hook_is_free(const internal::DdpCore& core) {
  TORCH_CHECK_VALUE(!core.converts_gradients,
                    "DistributedDataParallel: a communication hook cannot reduce gradients that "
                    "mixed_precision converts; set its reduce_dtype to the parameters' dtype");
}

}  // namespace

DdpReducer::DdpReducer(DdpModel model, const DdpOptions& options)
    : core_(std::make_unique<internal::DdpCore>(std::move(model), options)) {}
DdpReducer::~DdpReducer() = default;
DdpReducer::DdpReducer(DdpReducer&&) noexcept = default;
DdpReducer& DdpReducer::operator=(DdpReducer&&) noexcept = default;

void DdpReducer::notify_join() {
  internal::DdpCore& my = *core_;
  TORCH_CHECK(!my.has_missed_learning || !my.will_reduce(), "DistributedDataParallel: rank ",
              get_rank(),
              " had no input in the join that learned the static graph, and cannot train with the "
              "other ranks; give it an input in that join, or create a new "
              "DistributedDataParallel");
  const Work not_joined = notify_join_context();
  TORCH_CHECK_VALUE(
      not_joined || !is_joining() || my.divide_by_initial_world_size,
      "join: divide_by_initial_world_size is off, but the DistributedDataParallel is not the first "
      "joinable; only the first joinable knows how many ranks are left");
  if (!not_joined) return;
  my.reducer->set_forward_pass_work_handle(not_joined.c10d_work(), my.divide_by_initial_world_size);
}

void DdpReducer::before_forward() {
  internal::DdpCore& my = *core_;
  // The reducer builds its buckets in the dtype of the gradients.
  if (my.low_precision) my.low_precision->restore();
  if (my.will_reduce()) {
    my.logger->set_runtime_stats_and_log();
    my.reducer->prepare_for_forward();
  }
  const auto buffers = my.buffers_to_sync();
  my.logged_in_cpp_words([&] {
    notify_join();
    my.in_group([&] {
      // In a join, always rebuild: joined ranks cannot know whether this forward has gradients.
      if (c10::GradMode::is_enabled() || is_joining()) my.rebuild_buckets();
      if (buffers.empty()) return;
      // Rank 0 may have joined with old buffers.
      const int source = is_joining() ? internal::agree_on_source(my, true) : 0;
      internal::broadcast_buffers(my.group, buffers, source);
    });
    if (is_joining()) {
      my.agreement = internal::agree_on_reducing(my, my.will_reduce());
    }
  });
  if (my.low_precision) my.low_precision->begin_forward();
}

std::vector<at::Tensor> DdpReducer::after_forward(std::vector<at::Tensor> outputs) {
  internal::DdpCore& my = *core_;
  my.logged([&] { internal::check_agreement(my); });
  my.sync_buffers = my.will_reduce();
  if (my.sync_buffers) {
    const bool walk = my.options.find_unused_parameters && !my.options.static_graph;
    my.reducer->prepare_for_backward(walk ? outputs : std::vector<at::Tensor>());
  }
  if (my.needs_sink()) outputs = internal::sink(std::move(outputs), my.as_backward_begins());
  return my.low_precision ? my.low_precision->end_forward(std::move(outputs)) : outputs;
}

void DdpReducer::abandon_forward() {
  if (core_->low_precision) core_->low_precision->abandon_forward();
}

DdpReducer::NoSync::NoSync(std::shared_ptr<int> living) : living_(std::move(living)) { ++*living_; }
DdpReducer::NoSync::~NoSync() { --*living_; }
DdpReducer::NoSync DdpReducer::no_sync() { return NoSync(core_->no_syncs); }

void DdpReducer::register_comm_hook(CommHook hook, const std::string& name) {
  check_hook_is_free(*core_);
  core_->logged([&] {
    core_->reducer->register_comm_hook(internal::checked_comm_hook(std::move(hook), name));
    core_->logger->set_comm_hook(name);
  });
}

void DdpReducer::register_builtin_comm_hook(BuiltinCommHook hook) {
  using Type = c10d::BuiltinCommHookType;
  check_hook_is_free(*core_);
  const bool is_fp16 = hook == BuiltinCommHook::FP16_COMPRESS;
  core_->logged([&] {
    core_->reducer->register_builtin_comm_hook(is_fp16 ? Type::FP16_COMPRESS : Type::ALLREDUCE);
    core_->logger->set_comm_hook(is_fp16 ? "BuiltinCommHookType.FP16_COMPRESS"
                                         : "BuiltinCommHookType.ALLREDUCE");
  });
}

void DdpReducer::set_optimizer_in_backward() {
  TORCH_CHECK_VALUE(
      !core_->low_precision,
      "DistributedDataParallel: an optimizer cannot update parameters in backward() "
      "with mixed_precision, because they have its param_dtype until backward() ends");
  core_->reducer->set_optimizer_in_backward();
  core_->optimizer_in_backward = true;
}

std::unique_ptr<JoinHook> DdpReducer::join_hook(const JoinArguments& arguments) {
  return internal::ddp_join_hook(*core_, arguments);
}

c10::Device DdpReducer::join_device() const { return core_->device(); }
Group DdpReducer::join_process_group() const { return core_->options.process_group; }

const std::optional<c10::Device>& DdpReducer::input_device() const { return core_->input_device; }

bool DdpReducer::converts_inputs() const { return core_->input_device || core_->low_precision; }

at::Tensor DdpReducer::converted_input(const at::Tensor& tensor) const {
  const internal::DdpCore& my = *core_;
  const at::Tensor moved = my.input_device ? tensor.to(*my.input_device) : tensor;
  const bool converts = my.low_precision && moved.is_floating_point();
  return converts ? moved.to(my.low_precision->dtype()) : moved;
}

c10::DDPLoggingData DdpReducer::get_ddp_logging_data() const {
  return core_->logger->get_ddp_logging_data();
}

c10d::Reducer& DdpReducer::reducer() const { return *core_->reducer; }

}  // namespace distrun
