// Common code of the tests of ProcessGroupGloo: groups and tensors.
//
//     void sum(c10d::Backend& group, MakeTensor make) { … }
//
//     DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sum, {.ranks = 4}) {
//       sum(*create_gloo(), on_cpu);
//     }
//     DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_sum_cuda, {.ranks = 4, .min_gpus = 1}) {
//       sum(*create_gloo(), on_cuda);
//     }
//
// Each test runs exactly the collectives of its original in test_c10d_gloo.py, including the
// barrier in create_gloo().
#pragma once

#include <string>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "distrun/testing.h"

namespace distrun {

class ProcessGroupGlooTest : public DistributedTest {
 protected:
  using OptionsPtr = c10::intrusive_ptr<c10d::ProcessGroupGloo::Options>;

  // The network interface between the ranks: loopback, unless they are on several nodes.
  static std::string interface();

  // Timeout of 50 s, and a device of interface() per connection.
  static OptionsPtr options(int threads = 2);

  // All ranks, after a barrier.
  static c10::intrusive_ptr<c10d::Backend> create_gloo(const OptionsPtr& options);
  static c10::intrusive_ptr<c10d::Backend> create_gloo(int threads = 2);

  // Without the barrier. Each group of a test needs its own name.
  static c10::intrusive_ptr<c10d::Backend> connect_gloo(const std::string& name,
                                                        const OptionsPtr& options);

  // The kind of group that Python's init_process_group() creates: it selects the backend by the
  // tensors' device, and collectives go through the dispatcher. Without a barrier.
  static c10::intrusive_ptr<c10d::ProcessGroup> create_process_group();
};

// Copies a CPU tensor into the form that a test needs.
using MakeTensor = at::Tensor (*)(const at::Tensor&);

at::Tensor on_cpu(const at::Tensor& tensor);
at::Tensor on_cuda(const at::Tensor& tensor);  // GPU 0, which ranks may share.
// A tensor with one element becomes a column of a 2x2 matrix: two elements that are not adjacent.
at::Tensor as_column(const at::Tensor& tensor);

}  // namespace distrun
