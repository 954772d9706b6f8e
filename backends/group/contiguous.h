// Contiguous prepares tensors for backends, which ignore strides: contiguous elements, and complex
// numbers as pairs of real ones.
//
//     Contiguous contiguous(site);
//     Tensors tensors = {contiguous.output("tensor", tensor)};
//     return run_collective(site, async_op, contiguous, [&] { return …->broadcast(tensors); });
//
// It copies other tensors: inputs before the call, outputs before and after it.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backends/group/collective_checks.h"

namespace distrun::internal {

// An output that the backend gets as another tensor.
struct CopyBack {
  at::Tensor to;
  at::Tensor sent;  // Given to the backend instead of `to`.
  at::Tensor from;  // Copied to `to` at the end; undefined if `sent` is a view.
};

// Whether a tensor keeps its sizes or is sent as one dimension.
enum class Sizes { kOwn, kFlat };

// Returns a work that makes the copies before wait() returns and before its future completes. If
// the backend's work has no future (Gloo's point to point and reduce_scatter), the first wait()
// copies and ends the work, and later calls have the same result; a wait() that times out ends the
// work without copies. With a listener (begun_collective.h) and copies, the thread that waits, asks
// for the future or sees the completion makes the copies.
c10::intrusive_ptr<c10d::Work> copy_back_after(const c10::intrusive_ptr<c10d::Work>& work,
                                               std::vector<CopyBack> copies);

// If the work has no future, the caller must keep it and wait for it.
bool has_no_future(const c10d::Work& work);

class Contiguous {
 public:
  explicit Contiguous(const CallSite& site) : site_(site) {}

  // A tensor that is only read.
  static at::Tensor input(const at::Tensor& tensor, Sizes sizes = Sizes::kOwn);
  static std::vector<at::Tensor> inputs(const std::vector<at::Tensor>& tensors);

  // A tensor that is written, and perhaps read: backward() rejects it if autograd has saved it.
  // Throws c10::ValueError if its elements share memory, as after expand().
  at::Tensor output(const Name& name, const at::Tensor& tensor, Sizes sizes = Sizes::kOwn);
  // The same for a tensor whose values do not change, such as the root's in broadcast.
  at::Tensor unchanged_output(const Name& name, const at::Tensor& tensor);
  // A tensor that is written through `place`, which has as many elements in one dimension.
  void output_in(const at::Tensor& place, const Name& name, const at::Tensor& tensor);
  std::vector<at::Tensor> outputs(const Name& name, const std::vector<at::Tensor>& tensors);

  const std::vector<CopyBack>& copies() const { return copies_; }

 private:
  at::Tensor as_output(const Name& name, const at::Tensor& tensor, Sizes sizes);
  void check_writable(const Name& name, const at::Tensor& tensor) const;

  const CallSite& site_;
  std::vector<CopyBack> copies_;
};

}  // namespace distrun::internal
