// The future of a work, for the files of this folder.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace distrun::internal {

// Null if the work has none, as Gloo's sends, receives and reduce_scatter.  Thread safety: any
// thread.
c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work);

// A base class of works that always have a future, so that none is made to find out.
class AlwaysHasFuture {
 protected:
  ~AlwaysHasFuture() = default;
  virtual void always_has_future() const {}
};

}  // namespace distrun::internal
