#include <memory>
#include <sstream>
#include <string>

#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include "distrun/sync_batch_norm.h"

namespace distrun {
namespace {

using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNormOptions;
using torch::nn::Linear;
using torch::nn::Sequential;

template <class Act>
std::string conversion_error(const Act& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

Sequential small_net() {
  return Sequential(Linear(3, 4), BatchNorm1d(4), torch::nn::ReLU(), Linear(4, 2));
}

// A layer whose code is the user's.
struct OwnNormImpl : torch::nn::BatchNorm1dImpl {
  using torch::nn::BatchNorm1dImpl::BatchNorm1dImpl;
};
TORCH_MODULE(OwnNorm);

struct MembersImpl : torch::nn::Module {
  Sequential body = register_module("body", small_net());
  BatchNorm1d norm{nullptr};
  explicit MembersImpl(bool has_norm) {
    if (has_norm) norm = register_module("norm", BatchNorm1d(2));
  }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
};
TORCH_MODULE(Members);

class ConvertSyncBatchnormTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }
  static std::shared_ptr<SyncBatchNormImpl> layer(const Sequential& net, std::size_t index) {
    return std::dynamic_pointer_cast<SyncBatchNormImpl>(net->ptr(index));
  }
};

TEST_F(ConvertSyncBatchnormTest, SharesTheTensorsAndOptionsOfTheLayer) {
  BatchNorm2d plain(BatchNormOptions(3).eps(0.5).momentum(0.25));
  plain->bias.set_requires_grad(false);
  plain->eval();
  const SyncBatchNorm sync = convert_sync_batchnorm(plain);
  EXPECT_TRUE(sync->weight.is_same(plain->weight));
  EXPECT_TRUE(sync->bias.is_same(plain->bias));
  EXPECT_FALSE(sync->bias.requires_grad());
  EXPECT_TRUE(sync->weight.requires_grad());
  for (const auto& one : plain->named_buffers()) {
    EXPECT_TRUE(sync->named_buffers()[one.key()].is_same(one.value())) << one.key();
  }
  EXPECT_EQ(sync->options.eps(), 0.5);
  EXPECT_EQ(sync->options.momentum(), 0.25);
  EXPECT_FALSE(sync->is_training());

  const SyncBatchNorm bare = convert_sync_batchnorm(
      torch::nn::BatchNorm3d(BatchNormOptions(3).affine(false).track_running_stats(false)));
  EXPECT_EQ(bare->parameters().size(), 0);
  EXPECT_EQ(bare->buffers().size(), 0);
}

TEST_F(ConvertSyncBatchnormTest, ReplacesElementsOfSequentialInPlace) {
  Sequential net = small_net();
  const at::Tensor weight = net->named_parameters()["1.weight"], x = at::randn({5, 3});
  const at::Tensor expected = net->forward(x);
  const auto names = net->named_parameters().keys();
  net->named_buffers()["1.running_mean"].zero_();
  EXPECT_EQ(convert_sync_batchnorm(net).ptr(), net.ptr());
  ASSERT_TRUE(layer(net, 1));
  EXPECT_EQ(net->named_children()["1"], net->ptr(1));
  EXPECT_EQ(net->named_parameters().keys(), names);
  EXPECT_TRUE(net->named_parameters()["1.weight"].is_same(weight));
  EXPECT_TRUE(net->forward(x).allclose(expected));
  EXPECT_GT(net->named_buffers()["1.running_mean"].abs().sum().item<double>(), 0);
}

TEST_F(ConvertSyncBatchnormTest, ReplacesElementsWithinMembers) {
  const Members net(false);
  convert_sync_batchnorm(net);
  EXPECT_TRUE(layer(net->body, 1));
  const auto other = std::make_shared<MembersImpl>(false);
  EXPECT_EQ(convert_sync_batchnorm(other), other);
  EXPECT_TRUE(layer(other->body, 1));
}

TEST_F(ConvertSyncBatchnormTest, ALayerWithTwoNamesRemainsOneLayer) {
  const BatchNorm1d shared(3);
  const Sequential net(shared, Linear(3, 3), shared);
  convert_sync_batchnorm(net);
  ASSERT_TRUE(layer(net, 0));
  EXPECT_EQ(net->ptr(0), net->ptr(2));
  EXPECT_EQ(net->named_children()["0"], net->named_children()["2"]);
}

TEST_F(ConvertSyncBatchnormTest, LeavesOtherLayersAlone) {
  const Sequential net(Linear(3, 3), torch::nn::ReLU());
  const auto before = net->modules();
  convert_sync_batchnorm(net);
  EXPECT_EQ(net->modules(), before);
}

TEST_F(ConvertSyncBatchnormTest, NamesTheLayersThatItCannotReplace) {
  const Members net(true);
  const std::string rest =
      ", and has replaced no layer; only elements of torch::nn::Sequential with one of LibTorch's "
      "classes can be replaced: declare the others as distrun::SyncBatchNorm";
  EXPECT_EQ(conversion_error([&] { convert_sync_batchnorm(net); }),
            "convert_sync_batchnorm: cannot replace 'norm' (torch::nn::BatchNorm1dImpl)" + rest);
  EXPECT_FALSE(layer(net->body, 1));  // Nothing was replaced.

  const Sequential own(Linear(3, 3), OwnNorm(3));
  const std::string text = conversion_error([&] { convert_sync_batchnorm(own); });
  EXPECT_NE(text.find("cannot replace '1' ("), std::string::npos) << text;
  EXPECT_NE(text.find("OwnNormImpl"), std::string::npos) << text;

  torch::nn::ModuleList list;
  for (int i = 0; i < 7; ++i) list->push_back(BatchNorm1d(2));
  const std::string many = conversion_error([&] { convert_sync_batchnorm(list); });
  EXPECT_NE(many.find("'4' (torch::nn::BatchNorm1dImpl) and 2 more, and"), std::string::npos)
      << many;

  const std::shared_ptr<torch::nn::Module> itself = std::make_shared<torch::nn::BatchNorm2dImpl>(3);
  EXPECT_EQ(conversion_error([&] { convert_sync_batchnorm(itself); }),
            "convert_sync_batchnorm: the module itself is a torch::nn::BatchNorm2dImpl; pass it as "
            "a torch::nn::BatchNorm1d, BatchNorm2d or BatchNorm3d, and use the result in its "
            "place");
  EXPECT_EQ(conversion_error([] { convert_sync_batchnorm(std::shared_ptr<MembersImpl>()); }),
            "convert_sync_batchnorm: the module is null");
}

TEST_F(ConvertSyncBatchnormTest, StateCanBeExchangedWithThatOfBatchNorm) {
  Sequential plain = small_net(), sync = convert_sync_batchnorm(small_net());
  plain->forward(at::randn({8, 3}));
  std::stringstream file;
  torch::save(plain, file);
  torch::load(sync, file);
  const auto expect_same_state = [&] {
    const auto expected = plain->named_buffers();
    for (const auto& one : sync->named_buffers()) {
      EXPECT_TRUE(one.value().equal(expected[one.key()])) << one.key();
    }
    const auto parameters = plain->named_parameters();
    for (const auto& one : sync->named_parameters()) {
      EXPECT_TRUE(one.value().equal(parameters[one.key()])) << one.key();
    }
    EXPECT_EQ(sync->named_buffers().keys(), expected.keys());
  };
  expect_same_state();
  sync->forward(at::randn({8, 3}) + 1);
  std::stringstream back;
  torch::save(sync, back);
  torch::load(plain, back);
  expect_same_state();
  // The members are still the registered tensors.
  EXPECT_EQ(layer(sync, 1)->num_batches_tracked.item<int>(), 2);
}

}  // namespace
}  // namespace distrun
