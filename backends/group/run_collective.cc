#include "backends/group/run_collective.h"

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <unistd.h>

#include "backends/group/group_state.h"
#include "backends/group/registered_backends.h"
#include "backends/group/roll_call.h"
#include "common/text/rank_list.h"
#include "distrun/process_group.h"

namespace distrun {

namespace internal {

struct CollectiveCall {
  const char* function;
  std::shared_ptr<GroupState> state;  // Keeps the group alive while a collective runs.
  int rank;                           // Global, for messages after the groups are gone.
  bool is_default;
  std::optional<int> group_peer;  // The peer of send and recv.
};

}  // namespace internal

struct Work::Impl {
  internal::CollectiveCall call;
  c10::intrusive_ptr<c10d::Work> work;
};

namespace {

using internal::CollectiveCall;

// fork() does not copy the threads that run a group's collectives.
void check_process(const char* function, const internal::GroupState& state) {
  TORCH_CHECK(state.process == ::getpid(), function, " on rank ", get_rank(), ": process ",
              ::getpid(), " was forked from process ", state.process,
              ", which created the group, and cannot use it; start processes with spawn(), or call "
              "init_process_group() in the child");
}

CollectiveCall call_at(const internal::CallSite& site) {
  internal::state_of(Group());  // Throws if there is none.
  const auto& everybody = internal::world()->group;
  const auto& state =
      site.group.is_default() ? everybody : internal::GroupAccess::state(site.group);
  check_process(site.function, *state);
  return {site.function, state, get_rank(), state == everybody, site.peer};
}

// "all_reduce on rank 1 of 4", "all_reduce on rank 3 in group 1 of ranks 2, 3".
std::string where(const CollectiveCall& call) {
  const auto& ranks = call.state->ranks;
  const std::string rank = c10::str(call.function, " on rank ", call.rank);
  if (call.is_default) return c10::str(rank, " of ", ranks.size());
  return c10::str(rank, " in group ", call.state->name, " of ", list_of_ranks(ranks));
}

// "the connection to rank 3 was lost: ", if the error reports a lost peer.
std::string which_peer(internal::GroupState& state, const std::string& error) {
  // Another thread may free the group meanwhile.
  const internal::BorrowedGroup group(state);
  if (!group.get()) return "";
  for (const c10::Device device : group.get()->getDeviceTypes()) {
    const auto peer = internal::lost_peer(*group.get()->getBackend(device.type()), error);
    if (!peer) continue;
    const int rank = state.ranks[static_cast<std::size_t>(*peer)];
    return c10::str("the connection to rank ", rank, " was lost: ");
  }
  return "";
}

// "; rank 2 did not come: …", if the error is a timeout.
std::string who_is_missing(const CollectiveCall& call, const std::string& error) {
  if (!internal::is_backend_timeout(error)) return "";
  const internal::RollCall roll_call(*call.state);
  const std::string missing = call.group_peer
                                  ? roll_call.missing_peer(call.function, *call.group_peer)
                                  : roll_call.missing(call.function);
  return c10::str("; ", missing, missing.empty() ? "" : "; ",
                  "see monitored_barrier() and `distrun store status`");
}

[[noreturn]] void fail(const CollectiveCall& call, const std::string& error) {
  std::string why = "the group has been aborted";
  if (!call.state->is_aborted) {
    const std::string peer = which_peer(*call.state, error);
    if (!peer.empty()) internal::RollCall(*call.state).report(call.function);
    why = peer + error + who_is_missing(call, error);
  }
  TORCH_CHECK_WITH(DistBackendError, false, where(call), ": ", why);
}

// Calls `act`, which calls a backend, and translates its errors.
template <class Act>
auto translate(const CollectiveCall& call, const Act& act) {
  try {
    return act();
  } catch (const c10::Error& error) {
    // Subclasses report invalid calls.
    const bool is_plain = typeid(error) == typeid(c10::Error);
    if (!is_plain && dynamic_cast<const c10::DistError*>(&error) == nullptr) throw;
    fail(call, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(call, error.what());
  }
}

}  // namespace

void Work::wait(std::optional<std::chrono::milliseconds> timeout) const {
  if (!impl_) return;
  c10d::Work& work = *impl_->work;
  auto its = std::chrono::milliseconds::zero();  // LibTorch reads zero as no timeout.
  if (timeout && timeout->count() > 0) {
    its = *timeout;
  } else if (timeout && !work.isCompleted()) {
    fail(impl_->call, "Timed out after 0ms: the operation is not complete");
  } else if (internal::has_no_future(work)) {
    its = impl_->call.state->timeout;  // Otherwise Gloo uses the group's first timeout.
  }
  translate(impl_->call, [&] { work.wait(its); });
}

bool Work::is_completed() const { return !impl_ || impl_->work->isCompleted(); }

std::vector<at::Tensor> Work::result() const {
  if (!impl_) return {};
  return impl_->work->result();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::get_future() const {
  TORCH_CHECK(impl_, "get_future: this Work is empty");
  return impl_->work->getFuture();
}

int Work::source_rank() const {
  TORCH_CHECK(impl_, "source_rank: this Work is empty");
  const int rank = impl_->work->sourceRank();
  TORCH_CHECK(rank >= 0, "source_rank: nothing has been received yet: wait() first");
  return impl_->call.state->ranks.at(static_cast<std::size_t>(rank));
}

const c10::intrusive_ptr<c10d::Work>& Work::c10d_work() const {
  static const c10::intrusive_ptr<c10d::Work> none;
  return impl_ ? impl_->work : none;
}

namespace internal {

Work run_collective(const CallSite& site, bool async_op, const Act& act) {
  const CollectiveCall call = call_at(site);
  if (call.state->is_aborted) fail(call, "");
  auto begun = translate(call, act);
  if (!begun) return {};
  if (async_op && has_no_future(*begun)) call.state->hold(begun);
  Work work(std::make_shared<const Work::Impl>(Work::Impl{call, std::move(begun)}));
  if (async_op) return work;
  work.wait();
  return {};
}

Work run_collective(const CallSite& site, bool async_op, const Contiguous& contiguous,
                    const Act& act) {
  return run_collective(site, async_op,
                        [&] { return copy_back_after(act(), contiguous.copies()); });
}

void in_group(const CallSite& site, const std::function<void()>& act) {
  if (!is_initialized()) return act();
  const CollectiveCall call = call_at(site);
  if (!call.state->process_group) return act();
  if (call.state->is_aborted) fail(call, "");
  try {
    act();
  } catch (const c10::DistBackendError& error) {
    const std::string text = error.what_without_backtrace();
    // Our collectives have said so already.
    if (text.find(c10::str(" on rank ", call.rank, " ")) != std::string::npos) throw;
    fail(call, text);
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(call, error.what());
  }
}

ErrorsAt::ErrorsAt(const CallSite& site)
    : call_(std::make_shared<const CollectiveCall>(call_at(site))) {}

ErrorsAt::ErrorsAt(const CallSite& site, const std::shared_ptr<GroupState>& state, int rank)
    : call_(std::make_shared<const CollectiveCall>(CollectiveCall{
          site.function, state, rank, world() == nullptr || world()->group == state, site.peer})) {}

std::exception_ptr ErrorsAt::translated(const std::exception_ptr& error,
                                        const std::string& hint) const {
  try {
    translate(*call_, [&] { std::rethrow_exception(error); });
  } catch (const c10::DistBackendError& translated) {
    return std::make_exception_ptr(c10::DistBackendError(
        {__func__, __FILE__, __LINE__}, translated.what_without_backtrace() + hint));
  } catch (...) {
    return std::current_exception();
  }
  return error;
}

bool is_of_a_backend(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::DistError&) {
    return true;
  } catch (const std::exception& error) {
    return is_backend_error(error.what());
  } catch (...) {
    return false;
  }
}

Group pinned(const Group& group) {
  state_of(group);  // Throws if there is none.
  return group.is_default() ? GroupAccess::make(world()->group) : group;
}

bool is_for_this_rank(const char* function, const Group& group) {
  if (group.is_member()) return true;
  TORCH_WARN("Running ", function, " on global rank ", get_rank(),
             " which does not belong to the given group.");
  return false;
}

}  // namespace internal
}  // namespace distrun
