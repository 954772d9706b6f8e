// Arguments and results of forward(), and models without a torch::nn::Module.
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn/modules/embedding.h>

#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {

struct Scores {
  at::Tensor logits;
  std::vector<at::Tensor> hidden;
  int steps = 0;
};

template <class Visit>
void visit_tensors(Scores& scores, const Visit& visit) {
  visit(scores.logits);
  visit(scores.hidden);
}

namespace {

class DdpForwardMultirankTest : public DdpMultirankTest {};

struct WithWeight : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({2}));
};

TEST_F(DdpForwardMultirankTest, AcceptsResultsWhoseTensorsCanBeFound) {
  struct Net : WithWeight {
    Scores forward() { return {weight * 2, {weight * 3, weight * 4}, 7}; }
  };
  for (const bool find_unused : {false, true}) {
    DistributedDataParallel ddp(std::make_shared<Net>(), {.find_unused_parameters = find_unused});
    const Scores scores = ddp();
    EXPECT_EQ(scores.steps, 7);
    EXPECT_TRUE(scores.hidden[1].equal(at::full({2}, 4.0)));
    (scores.logits + scores.hidden[0]).sum().backward();
    EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({2}, 5.0)));
  }
}

TEST_F(DdpForwardMultirankTest, AcceptsForwardsThatReturnNothingOrAReference) {
  struct Net : WithWeight {
    at::Tensor last;
    void forward() { last = weight * 2; }
    const at::Tensor& forward(int factor) { return last = weight * factor; }
  };
  DistributedDataParallel ddp(std::make_shared<Net>());
  ddp();
  ddp.module()->last.sum().backward();
  ddp(3).sum().backward();
  EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({2}, 5.0)));
}

TEST_F(DdpForwardMultirankTest, PassesOnArgumentsUnchanged) {
  struct Net : WithWeight {
    at::Tensor forward(std::unique_ptr<int> factor, int& calls, const std::string& name,
                       double more = 1) {
      ++calls;
      return weight * *factor * more + static_cast<double>(name.size());
    }
  };
  DistributedDataParallel ddp(std::make_shared<Net>());
  int calls = 0;
  EXPECT_TRUE(ddp(std::make_unique<int>(2), calls, "abc").equal(at::full({2}, 5.0)));
  EXPECT_TRUE(ddp.forward(std::make_unique<int>(2), calls, "", 3.0).equal(at::full({2}, 6.0)));
  EXPECT_EQ(calls, 2);
}

TEST_F(DdpForwardMultirankTest, ReducesNothingWithoutGradients) {
  DistributedDataParallel ddp{TwoLayers()};
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(ddp(data()).requires_grad());
    EXPECT_FALSE(ddp(data()).requires_grad());
  }
  const Tensors expected = mean_gradients(*ddp.module());
  loss(ddp(data())).backward();
  expect_gradients(*ddp.module(), expected);
}

TEST_F(DdpForwardMultirankTest, AcceptsAHolderOrItsModule) {
  const TwoLayers holder;
  DistributedDataParallel of_holder(holder);
  DistributedDataParallel<TwoLayersImpl> of_module(holder.ptr());
  EXPECT_EQ(of_holder.module(), of_module.module());
}

TEST_F(DdpForwardMultirankTest, KeepsGradientsOfEmbeddingsSparse) {
  struct Net : torch::nn::Module {
    torch::nn::Embedding words{register_module(
        "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 2).sparse(true)))};
    torch::nn::Embedding dense{register_module("dense", torch::nn::Embedding(10, 2))};
    at::Tensor forward(const at::Tensor& x) { return words(x).sum() + dense(x).sum(); }
  };
  DistributedDataParallel ddp(std::make_shared<Net>());
  ddp(at::full({1}, get_rank(), at::kLong)).backward();
  const at::Tensor sparse = ddp.module()->words->weight.grad();
  ASSERT_TRUE(sparse.is_sparse());
  EXPECT_TRUE(sparse.to_dense().allclose(ddp.module()->dense->weight.grad()));
  EXPECT_FLOAT_EQ(sparse.to_dense().sum().item<float>(), 2.0F);
}

TEST_F(DdpForwardMultirankTest, TrainsAModelWithoutAModule) {
  at::Tensor weight = at::full({2}, 1.0 + get_rank()), unused = at::ones({3});
  weight.requires_grad_();
  unused.requires_grad_();
  at::Tensor seen = at::full({1}, 1.0 * get_rank());
  DdpReducer ddp({.name = "line",
                  .parameters = {{"weight", weight}, {"unused", unused}},
                  .buffers =
                      [&] {
                        return std::vector<DdpBuffer>{{"seen", seen}};
                      }},
                 {.find_unused_parameters = true});
  EXPECT_TRUE(weight.equal(at::ones({2})));
  EXPECT_TRUE(seen.equal(at::zeros({1})));
  ddp.before_forward();
  const Tensors outputs = ddp.after_forward({(weight * get_rank()).sum()});
  outputs[0].backward();
  EXPECT_TRUE(weight.grad().allclose(at::full({2}, (get_world_size() - 1) / 2.0)));
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_EQ(ddp.get_ddp_logging_data().strs_map.at("module_name"), "line");
}

TEST_F(DdpForwardMultirankTest, NamesTheParameterThatCannotBeTrained) {
  const at::Tensor good = at::ones({1}).requires_grad_();
  const auto make = [&](const at::Tensor& bad) {
    return error_of([&] { DdpReducer({.parameters = {{"good", good}, {"bad", bad}}}); });
  };
  EXPECT_EQ(make({}),
            "DistributedDataParallel: parameter 'bad' is undefined; create it, or run a forward "
            "that creates it, first");
  EXPECT_EQ(make(good * 2),
            "DistributedDataParallel: parameter 'bad' is not a leaf tensor, so it has no grad()");
  EXPECT_EQ(make(at::ones({1, 1}).to_sparse_csr()),
            "DistributedDataParallel: parameter 'bad' is SparseCsr; expected a dense one "
            "(to_dense()), whose gradient may be sparse (COO)");
  EXPECT_EQ(make(at::ones({1}, at::TensorOptions(at::kMeta))),
            "DistributedDataParallel: parameter 'bad' is on meta and 'good' on cpu: expected "
            "devices of one type");
}

TEST_F(DdpForwardMultirankTest, ReportsBucketsInTheLoggingData) {
  DistributedDataParallel ddp(TwoLayers(), {.bucket_cap_mb = 0});
  EXPECT_EQ(ddp.get_ddp_logging_data().ints_map.at("bucket_cap_bytes"), 0);
  EXPECT_EQ(ddp.get_ddp_logging_data().strs_map.at("bucket_sizes"), "104");
  for (int i = 0; i < 3; ++i) loss(ddp(data())).backward();
  const auto told = ddp.get_ddp_logging_data();
  EXPECT_EQ(told.strs_map.at("backend_name"), backend() == "gloo" ? "gloo" : "custom");
  // The gradients of the last layer come first.
  EXPECT_EQ(told.strs_map.at("rebuilt_bucket_sizes"), "8, 32, 16, 48");
  // Buckets that are not rebuilt have this order from the start.
  const DistributedDataParallel kept(TwoLayers(),
                                     {.bucket_cap_mb = 0, .find_unused_parameters = true});
  EXPECT_EQ(kept.get_ddp_logging_data().strs_map.at("bucket_sizes"), "8, 32, 16, 48");
}

}  // namespace
}  // namespace distrun
