#include "distrun/async_checkpoint.h"

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "distrun/process_group.h"
#include "parallel/checkpoint/checkpoint_state.h"

namespace distrun {

namespace {

Group own_group(const Group& group) {
  if (!is_initialized()) return {};
  const bool has_cpu = get_backend_config(group).find("cpu:") != std::string::npos;
  return new_group(get_process_group_ranks(group),
                   {.use_local_synchronization = true,
                    .backend = has_cpu ? get_backend(group) : "gloo",
                    .name = "checkpoint"});
}

CheckpointState copy_of(const CheckpointState& state) {
  CheckpointState copy;
  const CheckpointState now = internal::state_to_save(state);
  for (CheckpointPart part : now.parts()) {
    part.values = part.values.resolve_conj().resolve_neg().to(at::kCPU, part.values.scalar_type(),
                                                              /*non_blocking=*/false, /*copy=*/true,
                                                              at::MemoryFormat::Contiguous);
    copy.add_part(std::move(part));
  }
  return copy;
}

}  // namespace

struct AsyncCheckpoint::Impl {
  explicit Impl(const Group& given) : is_alone(!is_initialized()), group(own_group(given)) {}

  const bool is_alone;
  const Group group;
  std::thread thread;
  std::atomic<bool> is_saving = false;
  std::exception_ptr error;  // The thread's, until it is joined.
};

AsyncCheckpoint::AsyncCheckpoint(const Group& group) : impl_(std::make_unique<Impl>(group)) {}

AsyncCheckpoint::~AsyncCheckpoint() {
  try {
    wait();
  } catch (const c10::Error& error) {
    TORCH_WARN("AsyncCheckpoint: ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    TORCH_WARN("AsyncCheckpoint: ", error.what());
  }
}

void AsyncCheckpoint::save(const std::string& path, const CheckpointState& state) {
  wait();
  TORCH_CHECK(!impl_->is_alone || !is_initialized(),
              "AsyncCheckpoint: it was created before init_process_group(); create it afterwards");
  // An error of the copy is one of all ranks, on the thread.
  std::function<CheckpointState()> make;
  try {
    make = [copy = copy_of(state)] { return copy; };
  } catch (...) {
    make = [error = std::current_exception()]() -> CheckpointState {
      std::rethrow_exception(error);
    };
  }
  impl_->is_saving = true;
  impl_->thread = std::thread([impl = impl_.get(), path, make = std::move(make)] {
    try {
      internal::save_state(path, make, impl->group);
    } catch (...) {
      impl->error = std::current_exception();
    }
    impl->is_saving = false;
  });
}

void AsyncCheckpoint::wait() {
  if (impl_->thread.joinable()) impl_->thread.join();
  if (const auto error = std::exchange(impl_->error, nullptr)) std::rethrow_exception(error);
}

bool AsyncCheckpoint::is_saving() const { return impl_->is_saving; }

}  // namespace distrun
