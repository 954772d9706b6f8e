// Tensors as backends take them: their elements one after the other, and complex numbers as pairs
// of their parts.  Gloo reads and writes so many elements from where a tensor begins, whatever its
// strides are.  For the files of this folder.
//
//     Contiguous contiguous(site);
//     Tensors tensors = {contiguous.output("tensor", tensor)};
//     return run_collective(site, async_op, contiguous, [&] { return …->broadcast(tensors); });
//
// What lies otherwise is copied: an input at once, an output to and fro.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backends/group/collective_checks.h"

namespace distrun::internal {

// An output that the backend does not have as it is.
struct CopyBack {
  at::Tensor to;
  at::Tensor sent;  // What the backend works on; it stands for `to` in the results.
  at::Tensor from;  // What is to be copied when the collective has ended; none: `sent` is a view.
};

// A tensor goes with its own sizes, or as one dimension.
enum class Sizes { kOwn, kFlat };

// The work as one whose results have been copied when wait() returns, and before its future is
// completed.  Where the backend gives it no future, as Gloo does for point to point and
// reduce_scatter, the first wait() ends it, and copies; later ones have the same result.  A wait()
// that runs into its timeout ends it, too.  So does the first wait() where somebody listens to the
// work (begun_collective.h) and there are copies: those are then made by the thread that waits, or
// that asks for the future, or is told that the work is completed, which waits.
c10::intrusive_ptr<c10d::Work> copy_back_after(const c10::intrusive_ptr<c10d::Work>& work,
                                               std::vector<CopyBack> copies);

// It has none: somebody has to wait for it, and to hold it until then.
bool has_no_future(const c10d::Work& work);

class Contiguous {
 public:
  explicit Contiguous(const CallSite& site) : site_(site) {}

  // What is only read.
  static at::Tensor input(const at::Tensor& tensor, Sizes sizes = Sizes::kOwn);
  static std::vector<at::Tensor> inputs(const std::vector<at::Tensor>& tensors);

  // What is written, and perhaps read: backward() refuses it if autograd has saved it.  Throws
  // c10::ValueError where elements of it share memory, as those of expand() do.
  at::Tensor output(const Name& name, const at::Tensor& tensor, Sizes sizes = Sizes::kOwn);
  // The same of a tensor that keeps its values, as the root's in broadcast.
  at::Tensor unchanged_output(const Name& name, const at::Tensor& tensor);
  // What is written by way of `place`, of as many elements in one dimension.
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
