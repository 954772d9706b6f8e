// What a stage tells the next one about the tensors of a micro-batch, as numbers. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

struct ActivationFacts {
  std::vector<std::int64_t> sizes;
  at::ScalarType dtype = at::kFloat;
  bool requires_grad = false;

  static ActivationFacts of(const at::Tensor& tensor);
  at::Tensor empty_on(at::Device device) const;
  std::string text() const;  // "Float [3, 4], which requires a gradient"

  friend bool operator==(const ActivationFacts&, const ActivationFacts&) = default;
};

using ActivationFactsList = std::vector<ActivationFacts>;

ActivationFactsList facts_of(const std::vector<at::Tensor>& tensors);

std::vector<std::int64_t> pack_facts(const ActivationFactsList& facts);
// The opposite. Requires numbers of pack_facts().
ActivationFactsList unpack_facts(const std::vector<std::int64_t>& numbers);

// Says which tensor has changed, and how: "output 1 is Float [3, 4]; it was Float [2, 4]".
std::string change_of(const ActivationFactsList& before, const ActivationFactsList& now);

}  // namespace distrun::internal
