#include "parallel/pipeline/activation_facts.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

ActivationFactsList some_facts() {
  return facts_of({at::ones({2, 3}).requires_grad_(), at::ones({}, at::kLong),
                   at::ones({0, 1, 5}, at::kBFloat16)});
}

TEST(ActivationFactsTest, NumbersKeepAllFacts) {
  EXPECT_EQ(unpack_facts(pack_facts(some_facts())), some_facts());
  EXPECT_TRUE(unpack_facts(pack_facts({})).empty());
}

TEST(ActivationFactsTest, AnEmptyTensorHasTheFacts) {
  for (const ActivationFacts& one : some_facts()) {
    const at::Tensor tensor = one.empty_on(at::kCPU);
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef(one.sizes));
    EXPECT_EQ(tensor.scalar_type(), one.dtype);
    EXPECT_FALSE(tensor.requires_grad());
  }
}

TEST(ActivationFactsTest, DescribesTheFirstChange) {
  ActivationFactsList changed = some_facts();
  EXPECT_EQ(change_of(some_facts(), changed), "");
  changed[2].sizes = {4};
  EXPECT_EQ(change_of(some_facts(), changed),
            "output 2 is BFloat16 [4]; it was BFloat16 [0, 1, 5]");
  changed[0].requires_grad = false;
  EXPECT_EQ(change_of(some_facts(), changed),
            "output 0 is Float [2, 3]; it was Float [2, 3], which requires a gradient");
  changed.pop_back();
  EXPECT_EQ(change_of(some_facts(), changed), "there are 2 outputs; there were 3");
}

}  // namespace
}  // namespace distrun::internal
