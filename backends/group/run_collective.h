// Runs a collective of LibTorch and translates its errors.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/contiguous.h"
#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun::internal {

struct CollectiveCall;
struct GroupState;

// Calls `act`, which starts the collective, and waits for it unless `async_op`. A backend's error
// becomes a c10::DistBackendError with the function, this rank and the lost peer, if any.
using Act = std::function<c10::intrusive_ptr<c10d::Work>()>;
Work run_collective(const CallSite& site, bool async_op, const Act& act);
// The same, if `act` uses tensors of `contiguous`.
Work run_collective(const CallSite& site, bool async_op, const Contiguous& contiguous,
                    const Act& act);

// Calls `act`, in which LibTorch runs collectives itself. Translates a backend's errors like
// run_collective(), but not LibTorch's c10::Error, nor any error after the group is destroyed.
void in_group(const CallSite& site, const std::function<void()>& act);

// Translates errors that arrive another way, such as from backward().
class ErrorsAt {
 public:
  // Keeps the state of the group, which must exist now but may be destroyed later.
  explicit ErrorsAt(const CallSite& site);
  // Of a call that began when `rank` was this rank.
  ErrorsAt(const CallSite& site, const std::shared_ptr<GroupState>& state, int rank);

  // Appends `hint` to the text. Subclasses of c10::Error other than c10::DistError do not change.
  std::exception_ptr translated(const std::exception_ptr& error, const std::string& hint) const;

 private:
  std::shared_ptr<const CollectiveCall> call_;
};

// Whether the error reports a lost peer or a timeout: from the functions above, or from a backend
// while LibTorch waits, as in backward(). Gloo's errors are recognized by their text.
bool is_of_a_backend(const std::exception_ptr& exception);

// A Group that keeps its state, for objects that outlive the default group.
Group pinned(const Group& group);

// False, with a warning, on a rank outside the group.
bool is_for_this_rank(const char* function, const Group& group);

}  // namespace distrun::internal
