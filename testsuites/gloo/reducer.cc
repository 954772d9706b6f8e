#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "distrun/process_group.h"
#include "parallel/ddp/construct_reducer.h"
#include "testsuites/gloo/ddp_networks.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

struct ReducerModule : torch::nn::Module {
  torch::nn::Linear fc1, fc2, fc3;

  ReducerModule()
      : fc1(register_module("fc1", linear(2, 10))),
        fc2(register_module("fc2", linear(10, 4))),
        fc3(register_module("fc3", linear(4, 4))) {}

  at::Tensor forward(at::Tensor x, bool use_fc3 = true) {
    x = at::relu(fc1(x)).to(at::kFloat);
    x = at::relu(fc2(x)).to(at::kFloat);
    if (use_fc3) x = fc3(x).to(at::kFloat);
    return at::softmax(x, /*dim=*/1);
  }
};

// The first layer computes in double precision.
ReducerModule mixed_precision_model() {
  ReducerModule model;
  model.fc1->to(at::kDouble);
  return model;
}

using Buckets = std::vector<std::vector<std::size_t>>;

// Adjacent parameters of one dtype share a bucket.
Buckets buckets_by_dtype(const std::vector<at::Tensor>& parameters) {
  Buckets buckets;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool is_first = i == 0 || parameters[i].dtype() != parameters[i - 1].dtype();
    if (is_first) buckets.emplace_back();
    buckets.back().push_back(i);
  }
  return buckets;
}

std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<at::Tensor>& parameters,
                                            Buckets buckets, bool find_unused_parameters = false) {
  return internal::construct_reducer(
      parameters, std::move(buckets), Group().process_group(),
      std::vector<bool>(parameters.size(), false), int64_t{c10d::kDefaultBucketBytesCap},
      find_unused_parameters, /*gradient_as_bucket_view=*/false,
      std::unordered_map<std::size_t, std::string>(), int64_t{c10d::kDefaultFirstBucketBytes},
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false);
}

struct ReducerTest : DefaultGroupTest {
  ReducerModule model = mixed_precision_model();
  const std::vector<at::Tensor> parameters = model.parameters();

  std::shared_ptr<c10d::Reducer> reducer(bool find_unused_parameters = false) const {
    return make_reducer(parameters, buckets_by_dtype(parameters), find_unused_parameters);
  }

  at::Tensor loss(bool use_fc3 = true) {
    const at::Tensor input = at::rand({10, 2}, at::kDouble);
    return at::cross_entropy_loss(model.forward(input, use_fc3), at::randint(4, {10}, at::kLong));
  }
};

DISTRIBUTED_TEST(gloo, ReducerTest, test_single_dtype_single_bucket, {.ranks = 1}) {
  const ReducerModule single;
  EXPECT_NO_THROW(make_reducer(single.parameters(), {{0, 1, 2}}));
}

DISTRIBUTED_TEST(gloo, ReducerTest, test_multi_dtype_single_bucket, {.ranks = 1}) {
  EXPECT_THROWS_WITH(make_reducer(parameters, {{0, 1, 2}}), c10::Error,
                     "All parameters in a bucket must have the same dtype");
}

DISTRIBUTED_TEST(gloo, ReducerTest, test_multi_dtype_multi_bucket, {.ranks = 1}) {
  EXPECT_EQ(buckets_by_dtype(parameters), (Buckets{{0}, {1, 2}}));
  EXPECT_NO_THROW(reducer());
}

DISTRIBUTED_TEST(gloo, ReducerTest, test_forward_backward, {.ranks = 1}) {
  const auto its = reducer();
  its->prepare_for_forward();
  const at::Tensor output = loss();
  its->prepare_for_backward({output});
  output.backward();
  for (const at::Tensor& one : parameters) EXPECT_TRUE(one.grad().defined());
}

DISTRIBUTED_TEST(gloo, ReducerTest, test_forward_backward_unused_parameters, {.ranks = 1}) {
  const auto its = reducer(/*find_unused_parameters=*/true);
  its->prepare_for_forward();
  const at::Tensor output = loss(/*use_fc3=*/false);
  EXPECT_FALSE(model.fc3->weight.grad().defined());
  its->prepare_for_backward({output});
  output.backward();
  EXPECT_TRUE(model.fc1->weight.grad().defined());
  // No rank used it, so it must not change.
  EXPECT_FALSE(model.fc3->weight.grad().defined());
}

DISTRIBUTED_TEST(gloo, ReducerTest, test_forward_backward_optimizer, {.ranks = 1}) {
  const auto its = reducer(/*find_unused_parameters=*/true);
  its->prepare_for_forward();
  torch::optim::Adam optimizer(parameters);
  const at::Tensor unused_first = model.fc3->weight.detach().clone();
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    optimizer.zero_grad();
    const at::Tensor before = model.fc1->weight.detach().clone();
    const at::Tensor output = loss(/*use_fc3=*/i > 0);
    its->prepare_for_backward({output});
    output.backward();
    optimizer.step();
    EXPECT_FALSE(model.fc1->weight.equal(before));
    EXPECT_EQ(model.fc3->weight.equal(unused_first), i == 0);
  }
}

}  // namespace
}  // namespace distrun
