#include "parallel/pipeline/activation_facts.h"

#include <cstddef>

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

namespace distrun::internal {

ActivationFacts ActivationFacts::of(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.scalar_type(), tensor.requires_grad()};
}

at::Tensor ActivationFacts::empty_on(at::Device device) const {
  return at::empty(sizes, at::TensorOptions(dtype).device(device));
}

std::string ActivationFacts::text() const {
  return c10::str(dtype, " ", at::IntArrayRef(sizes),
                  requires_grad ? ", which requires a gradient" : "");
}

ActivationFactsList facts_of(const std::vector<at::Tensor>& tensors) {
  ActivationFactsList facts;
  facts.reserve(tensors.size());
  for (const at::Tensor& one : tensors) facts.push_back(ActivationFacts::of(one));
  return facts;
}

std::vector<std::int64_t> pack_facts(const ActivationFactsList& facts) {
  std::vector<std::int64_t> numbers;
  for (const ActivationFacts& one : facts) {
    numbers.push_back(static_cast<std::int64_t>(one.dtype));
    numbers.push_back(one.requires_grad ? 1 : 0);
    numbers.push_back(static_cast<std::int64_t>(one.sizes.size()));
    numbers.insert(numbers.end(), one.sizes.begin(), one.sizes.end());
  }
  return numbers;
}

ActivationFactsList unpack_facts(const std::vector<std::int64_t>& numbers) {
  ActivationFactsList facts;
  auto next = numbers.begin();
  while (next != numbers.end()) {
    ActivationFacts one;
    one.dtype = static_cast<at::ScalarType>(*next++);
    one.requires_grad = *next++ != 0;
    const std::int64_t dimensions = *next++;
    one.sizes.assign(next, next + dimensions);
    next += dimensions;
    facts.push_back(std::move(one));
  }
  return facts;
}

std::string change_of(const ActivationFactsList& before, const ActivationFactsList& now) {
  if (before.size() != now.size()) {
    return c10::str("there are ", now.size(), " outputs; there were ", before.size());
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == before[i]) continue;
    return c10::str("output ", i, " is ", now[i].text(), "; it was ", before[i].text());
  }
  return "";
}

}  // namespace distrun::internal
