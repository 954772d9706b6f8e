#include "backends/run_collective.h"

#include <exception>
#include <typeinfo>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group_state.h"
#include "backends/process_group.h"

namespace distrun {

struct Work::Impl {
  const char* function;
  Group group;  // Lives as long as what is under way in it.
  c10::intrusive_ptr<c10d::Work> work;
  int rank, size;  // Of the group, to be told when it may be gone.
};

namespace {

// Runs what a backend does.
template <class Act>
auto translate(const char* function, int rank, int size, const Act& act) {
  try {
    return act();
  } catch (const c10::Error& error) {
    // Its other subclasses say what is wrong with the call.
    const bool is_plain = typeid(error) == typeid(c10::Error);
    if (!is_plain && dynamic_cast<const c10::DistError*>(&error) == nullptr) throw;
    TORCH_CHECK_WITH(DistBackendError, false, function, " on rank ", rank, " of ", size, ": ",
                     error.what_without_backtrace());
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, function, " on rank ", rank, " of ", size, ": ",
                     error.what());
  }
}

}  // namespace

void Work::wait(std::chrono::milliseconds timeout) const {
  if (!impl_) return;
  translate(impl_->function, impl_->rank, impl_->size, [&] { impl_->work->wait(timeout); });
}

bool Work::is_completed() const { return !impl_ || impl_->work->isCompleted(); }

std::vector<at::Tensor> Work::result() const {
  if (!impl_) return {};
  return impl_->work->result();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::get_future() const {
  TORCH_CHECK(impl_, "get_future: nothing is under way");
  return impl_->work->getFuture();
}

int Work::source_rank() const {
  TORCH_CHECK(impl_, "source_rank: nothing was received");
  return get_global_rank(impl_->group, impl_->work->sourceRank());
}

const c10::intrusive_ptr<c10d::Work>& Work::c10d_work() const {
  static const c10::intrusive_ptr<c10d::Work> none;
  return impl_ ? impl_->work : none;
}

namespace internal {

Work run_collective(const char* function, const Group& group, bool async_op,
                    const std::function<c10::intrusive_ptr<c10d::Work>()>& act) {
  const int rank = get_rank(group), size = get_world_size(group);
  auto begun = translate(function, rank, size, act);
  if (!begun) return {};
  Work work(std::make_shared<const Work::Impl>(
      Work::Impl{function, group, std::move(begun), rank, size}));
  if (async_op) return work;
  work.wait();
  return {};
}

bool is_for_this_rank(const char* function, const Group& group) {
  if (group.is_member()) return true;
  TORCH_WARN("Running ", function, " on global rank ", get_rank(),
             " which does not belong to the given group.");
  return false;
}

}  // namespace internal
}  // namespace distrun
