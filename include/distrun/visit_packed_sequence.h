// With this header, for_each_tensor() (visit_tensors.h) finds the tensors of a
// torch::nn::utils::rnn::PackedSequence.  Include this header if you use a DistributedDataParallel
// with a module whose forward() takes or returns a PackedSequence.
//
//     #include "distrun/visit_packed_sequence.h"
//     DistributedDataParallel ddp(std::make_shared<NetOfSequences>());
//     torch::nn::utils::rnn::PackedSequence output = ddp(packed);
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/utils/rnn.h>

#include "distrun/visit_tensors.h"

namespace distrun {

// Visits all tensors except batch_sizes, which must stay on the CPU.
template <class Visit>
void visit_tensors(torch::nn::utils::rnn::PackedSequence& sequence, const Visit& visit) {
  at::Tensor data = sequence.data();
  at::Tensor sorted = sequence.sorted_indices();
  at::Tensor unsorted = sequence.unsorted_indices();
  visit(data);
  visit(sorted);
  visit(unsorted);
  sequence = torch::nn::utils::rnn::PackedSequence(data, sequence.batch_sizes(), sorted, unsorted);
}

}  // namespace distrun
