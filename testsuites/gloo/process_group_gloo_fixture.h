// What the tests of ProcessGroupGloo have in common: how their groups and their tensors are made.
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
// Each test makes the collectives that its original in PyTorch's test_c10d_gloo.py makes, and no
// others: the barrier in create_gloo() is there too.
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

  // A time-out of 50 s, and a loopback device for each connection.
  static OptionsPtr options(int threads = 2);

  // A group of all ranks, after a barrier on it.
  static c10::intrusive_ptr<c10d::Backend> create_gloo(const OptionsPtr& options);
  static c10::intrusive_ptr<c10d::Backend> create_gloo(int threads = 2);

  // The same without the barrier.  Groups of one test have different names.
  static c10::intrusive_ptr<c10d::Backend> connect_gloo(const std::string& name,
                                                        const OptionsPtr& options);

  // The group that init_process_group() makes in Python: it takes its backend by the tensors'
  // device, and every collective goes by way of the dispatcher.  Without a barrier.
  static c10::intrusive_ptr<c10d::ProcessGroup> create_process_group();
};

// How a test makes its tensors: from one in CPU memory, a copy that is as the test needs it.
using MakeTensor = at::Tensor (*)(const at::Tensor&);

at::Tensor on_cpu(const at::Tensor& tensor);
at::Tensor on_cuda(const at::Tensor& tensor);  // GPU 0, which ranks may share.
// A column of a matrix, two elements that do not lie side by side.  Of a tensor with one element.
at::Tensor as_column(const at::Tensor& tensor);

}  // namespace distrun
