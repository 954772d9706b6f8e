// What every collective does around the call of LibTorch's.  For the files of this folder, and
// for those above that have LibTorch make collectives.
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

// Calls `act`, which begins the collective, and waits for it unless `async_op`.  What a backend
// throws, there or while it is waited for, becomes a c10::DistBackendError that names the function,
// this rank, and the peer whose connection was lost where that is why.
using Act = std::function<c10::intrusive_ptr<c10d::Work>()>;
Work run_collective(const CallSite& site, bool async_op, const Act& act);
// The same with the tensors that `act` has of `contiguous`.
Work run_collective(const CallSite& site, bool async_op, const Contiguous& contiguous,
                    const Act& act);

// Calls `act`, in which LibTorch makes collectives of its own.  What a backend throws becomes the
// same error; a c10::Error is what LibTorch has to say, and stays as it is.  Where the group has
// been destroyed, and `act` has LibTorch's still, it is just called.
void in_group(const CallSite& site, const std::function<void()>& act);

// The same for an error that reaches the caller by another way, as those of backward() do.
class ErrorsAt {
 public:
  // The group has not been destroyed yet.
  explicit ErrorsAt(const CallSite& site);

  // `hint` ends the text.  What LibTorch has to say stays as it is.
  std::exception_ptr translated(const std::exception_ptr& error, const std::string& hint) const;

 private:
  std::shared_ptr<const CollectiveCall> call_;
};

// That a peer is gone, or was waited for too long: what the functions above throw, and what a
// backend throws where LibTorch waits for it (backward()), of which Gloo's is known by its text
// alone.
bool is_of_a_backend(const std::exception_ptr& exception);

// The group, which Group() is until it is destroyed: for what stays with it.
Group pinned(const Group& group);

// False, and a warning, on a rank that is not in the group.
bool is_for_this_rank(const char* function, const Group& group);

}  // namespace distrun::internal
