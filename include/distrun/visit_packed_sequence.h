// Makes torch::nn::utils::rnn::PackedSequence known to for_each_tensor() (visit_tensors.h), for
// modules that take or return one: include it where DistributedDataParallel is used with them.
//
// Its batch_sizes are left alone: they belong on the CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/utils/rnn.h>

#include "distrun/visit_tensors.h"

namespace distrun {

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
