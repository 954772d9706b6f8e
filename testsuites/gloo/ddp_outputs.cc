#include <ATen/ATen.h>

#include "testsuites/gloo/ddp.h"

namespace distrun {
namespace {

// forward() may be called, and its output dropped, any number of times before one is used.
void ignore_outputs(bool with_unused_parameters) {
  constexpr int64_t kBatch = 4;
  DistributedDataParallel ddp(std::make_shared<IgnoredOutputImpl>(with_unused_parameters),
                              {.find_unused_parameters = with_unused_parameters});
  const at::Tensor input = at::rand({kBatch, 2});
  const at::Tensor target = at::randint(4, {kBatch}, at::kLong);
  for (int i = 0; i < 4; ++i) ddp(input);
  const at::Tensor& weight = ddp.module()->fc1->weight;
  EXPECT_FALSE(weight.grad().defined());
  at::Tensor first;
  for (int i = 1; i <= 4; ++i) {
    at::cross_entropy_loss(ddp(input), target).backward();
    ASSERT_TRUE(weight.grad().defined());
    if (!first.defined()) first = weight.grad().clone();
    EXPECT_TENSORS_CLOSE(weight.grad(), first * i);  // Each backward() adds the same.
  }
  EXPECT_GT(first.abs().sum().item<double>(), 0);
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ignored_output,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  ignore_outputs(/*with_unused_parameters=*/false);
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_ignored_output_with_unused_parameters,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  ignore_outputs(/*with_unused_parameters=*/true);
}

// A user's type with a tensor and other members, like Python's dataclass.
struct Loss {
  at::Tensor o;
  int count = 0;
};

template <class Visit>
void visit_tensors(Loss& loss, const Visit& visit) {
  visit(loss.o);
}

// Uses the second layer on request.
struct LossModuleImpl : torch::nn::Module {
  torch::nn::Linear relu_layer{register_module("relu_layer", linear(2, 2))};
  torch::nn::Linear other{register_module("other", linear(2, 2))};
  bool skips_other = false;
  Loss forward(const at::Tensor& x) {
    const at::Tensor y = at::relu(relu_layer(x));
    return {skips_other ? y : other(y), 1};
  }
};

void train_by_loss_type(bool with_unused_parameters) {
  const auto module = std::make_shared<LossModuleImpl>();
  module->skips_other = with_unused_parameters;
  DistributedDataParallel ddp(module, {.find_unused_parameters = true});
  for (int i = 0; i < 5; ++i) {
    const Loss loss = ddp(at::full({2, 2}, 1.0 + get_rank()));
    EXPECT_EQ(loss.count, 1);
    loss.o.sum().backward();
  }
  EXPECT_TRUE(module->relu_layer->weight.grad().defined());
  EXPECT_EQ(module->other->weight.grad().defined(), !with_unused_parameters);
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_dataclass_output,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  train_by_loss_type(/*with_unused_parameters=*/false);
}

DISTRIBUTED_TEST(gloo, DistributedDataParallelTest, test_dataclass_output_unused_param,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  train_by_loss_type(/*with_unused_parameters=*/true);
}

}  // namespace
}  // namespace distrun
