// The parameters of a model during a forward and its backward: copies in a low precision.
//
//     low->begin_forward();                                   // Parameters become copies.
//     outputs = low->end_forward(net(input));
//     loss(outputs).backward();                               // Its end puts the values back.
//
// A parameter keeps its identity and its gradient accumulator: autograd converts each gradient to
// the parameter's own dtype before it accumulates, so gradients never have the low precision.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
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

  // Copies the values of all parameters. Call restore() first.
  void begin_forward();
  // Returns the outputs. If they need a backward, the copies stay until the next backward() has
  // ended, or until the outputs of the last forward are destroyed. Otherwise, the values are back
  // now.
  std::vector<at::Tensor> end_forward(std::vector<at::Tensor> outputs);
  // Puts the values back. A backward that starts later makes new copies.
  void restore();
  // Does the same, unless a backward is running.
  void restore_if_idle();

 private:
  struct Call;
  struct Parameter {
    at::Tensor tensor;
    at::Tensor values;  // Defined while `tensor` is a copy.
  };

  void begin_backward();
  void copy();

  std::vector<Parameter> parameters_;
  at::ScalarType dtype_;
  std::uint64_t forwards_ = 0;
  std::weak_ptr<int> backward_;  // Expired unless a backward is running.
};

}  // namespace distrun::internal
