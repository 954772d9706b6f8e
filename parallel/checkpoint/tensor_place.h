// The places of the tensors of a module in the whole tensors of which this rank has parts.
//
//     for (const TensorPlace& place : places_in(module)) {
//       for (CheckpointPart& part : parts_of(place, place.name, place.values)) …
//     }
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "distrun/checkpoint.h"
#include "parallel/checkpoint/box.h"

namespace distrun::internal {

// What this rank has of a tensor: boxes, one after the other in its memory.
struct TensorPlace {
  std::string name;
  at::Tensor tensor;                // The parameter or buffer itself.
  std::vector<std::int64_t> sizes;  // Of the whole tensor.
  std::vector<Box> boxes;           // Empty if this rank has nothing.
};

// The parameters and buffers, by each of their names: one that two modules share has two. Frees
// gathered parameters.
std::vector<TensorPlace> places_in(torch::nn::Module& module);

// The parts of `values`, which has as many elements as the place's tensor.
std::vector<CheckpointPart> parts_of(const TensorPlace& place, const std::string& name,
                                     const at::Tensor& values);

}  // namespace distrun::internal
