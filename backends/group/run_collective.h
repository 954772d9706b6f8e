// Runs a collective of LibTorch, and turns its errors into ours.  For the files of this folder, and
// for those above it that run collectives through LibTorch.
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

// Calls `act`, which starts the collective, and waits for it unless `async_op`.  An error of the
// backend becomes a c10::DistBackendError with the function, this rank and the lost peer, if any.
using Act = std::function<c10::intrusive_ptr<c10d::Work>()>;
Work run_collective(const CallSite& site, bool async_op, const Act& act);
// The same, if `act` uses tensors of `contiguous`.
Work run_collective(const CallSite& site, bool async_op, const Contiguous& contiguous,
                    const Act& act);

// Calls `act`, in which LibTorch runs collectives itself.  An error of the backend becomes the same
// error; a c10::Error of LibTorch stays as it is.  If the group is destroyed and `act` still has
// LibTorch's group, errors are not changed.
void in_group(const CallSite& site, const std::function<void()>& act);

// The same for an error that reaches the caller another way, such as those of backward().
class ErrorsAt {
 public:
  // Whether the group still exists.
  explicit ErrorsAt(const CallSite& site);

  // Appends `hint` to the text.  A c10::Error of LibTorch stays as it is.
  std::exception_ptr translated(const std::exception_ptr& error, const std::string& hint) const;

 private:
  std::shared_ptr<const CollectiveCall> call_;
};

// Whether the error reports a lost peer or a time-out: the errors of the functions above, and those
// that a backend throws while LibTorch waits (backward()), which for Gloo only the text shows.
bool is_of_a_backend(const std::exception_ptr& exception);

// The state of the group, for objects that outlive the default group.
Group pinned(const Group& group);

// False, with a warning, on a rank outside the group.
bool is_for_this_rank(const char* function, const Group& group);

}  // namespace distrun::internal
