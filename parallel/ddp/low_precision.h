// The parameters of a model: copies in a low precision, while a forward or a backward runs.
//
//     low->begin_forward();                    // Parameters become copies.
//     outputs = low->end_forward(net(input));  // They have their values again.
//     loss(outputs).backward();                // They are the same copies until it ends.
//     optimizer.step();
//
// A parameter keeps its identity and its gradient accumulator: autograd converts each gradient to
// the parameter's own dtype before it accumulates, so gradients never have the low precision.
//
// Autograd saves some parameters themselves, and not their memory, so backward needs the copies. A
// backward uses those of its forward, also if the values have changed since: gradients are then
// those of the forward. A second backward of the same graph copies the current values.
//
// Two objects may have the same parameter, even in one backward. The first one that replaces it
// puts it back.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

class LowPrecision : public std::enable_shared_from_this<LowPrecision> {
 public:
  // Keeps references to those parameters that have floating-point values of another dtype.
  LowPrecision(const std::vector<at::Tensor>& parameters, at::ScalarType dtype);
  LowPrecision(const LowPrecision&) = delete;
  LowPrecision& operator=(const LowPrecision&) = delete;
  ~LowPrecision() { restore(); }

  at::ScalarType dtype() const { return dtype_; }

  // Copies the values of all parameters. Call restore() first. Throws c10::ValueError if another
  // object has given a parameter another low precision.
  void begin_forward();
  // Puts the values back, and returns the outputs. If they need a backward, they keep the copies
  // until it ends.
  std::vector<at::Tensor> end_forward(std::vector<at::Tensor> outputs);
  // Ends a forward that has thrown.
  void abandon_forward();
  // Puts the values back, also in a backward.
  void restore();

 private:
  using Tensors = std::vector<at::Tensor>;  // One for each parameter.
  struct Forward;
  class Backward;
  struct Parameter {
    at::Tensor tensor;
    at::ScalarType dtype;
    at::Tensor values;  // Defined while `tensor` is a copy.
  };

  void begin_backward(Forward& forward);
  Tensors copies() const;
  void use(const Tensors& copies);

  std::vector<Parameter> parameters_;
  at::ScalarType dtype_;
  Tensors in_forward_;            // The copies of the running forward.
  Backward* backward_ = nullptr;  // The running backward.
};

}  // namespace distrun::internal
