#include <ATen/ATen.h>

#include "distrun/functional.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

// Two ranks each compute sin(y).sum() of their outputs. Expected gradients are constants, because
// no rank can vary another's input numerically.
class TestDistributedNNFunctionsGloo : public DefaultGroupTest {
 protected:
  static at::Tensor ones(c10::Device device) { return at::ones({5, 5}, device); }
  // 1 on rank 0, 2 on rank 1.
  static at::Tensor input(c10::Device device) { return (ones(device) + rank()).requires_grad_(); }

  static void backward(const at::Tensor& output) { output.sin().sum().backward(); }

  static void broadcast(c10::Device device) {
    const at::Tensor x = input(device), y = functional::broadcast(x, 1);
    EXPECT_TENSORS_CLOSE(y, ones(device) + 1);
    backward(y);
    EXPECT_TENSORS_CLOSE(x.grad(), rank() == 1 ? 2 * x.detach().cos() : at::zeros_like(x));
  }

  static void reduce(c10::Device device) {
    const at::Tensor x = input(device), y = functional::reduce(x, 1, ReduceOp::SUM);
    if (rank() == 1) {
      EXPECT_TENSORS_CLOSE(y, 3 * ones(device));
    }
    backward(y);
    EXPECT_TENSORS_CLOSE(x.grad(), (3 * ones(device)).cos());
  }

  static void all_reduce(c10::Device device) {
    const at::Tensor x = input(device), y = functional::all_reduce(x, ReduceOp::SUM);
    EXPECT_TENSORS_CLOSE(y, 3 * ones(device));
    backward(y);
    EXPECT_TENSORS_CLOSE(x.grad(), 2 * (3 * ones(device)).cos());
  }

  static void all_gather(c10::Device device) {
    const at::Tensor x = input(device);
    const Tensors y = functional::all_gather(x);
    EXPECT_TENSORS_CLOSE(y, {ones(device), ones(device) + 1});
    backward(at::stack(y).sum(0));
    EXPECT_TENSORS_CLOSE(x.grad(), 2 * (3 * ones(device)).cos());
  }

  static void all_to_all(c10::Device device) {
    const auto own = [&] { return (ones(device) + 2 * rank()).requires_grad_(); };
    const Tensors x = {own(), own()};
    const Tensors y = functional::all_to_all({at::empty_like(x[0]), at::empty_like(x[1])}, x);
    EXPECT_TENSORS_CLOSE(y, {ones(device), ones(device) + 2});
    backward(at::stack(y).sum(0));
    const at::Tensor gradient = (4 * ones(device)).cos();
    EXPECT_TENSORS_CLOSE(Tensors({x[0].grad(), x[1].grad()}), {gradient, gradient});
  }

  // Rank r sends r + 1 rows to rank 0 and twice as many to rank 1.
  static void all_to_all_single(c10::Device device) {
    const int64_t own = rank() + 1;
    const at::Tensor x = at::full({3 * own, 5}, 1.0 * own, device).requires_grad_();
    const std::vector<int64_t> sizes = {own, 2 * own};
    const at::Tensor y = functional::all_to_all_single(at::empty_like(x), x, sizes, sizes);
    const at::Tensor expected =
        at::cat({at::full({own, 5}, 1.0, device), at::full({2 * own, 5}, 2.0, device)});
    EXPECT_TENSORS_CLOSE(y, expected);
    backward(y);
    EXPECT_TENSORS_CLOSE(x.grad(), x.detach().cos());
  }

  static void gather(c10::Device device) {
    const at::Tensor x = input(device);
    const Tensors y = functional::gather(x, 1);
    const at::Tensor nothing = at::zeros({5, 5}, device);
    EXPECT_TENSORS_CLOSE(
        y, rank() == 1 ? Tensors{ones(device), ones(device) + 1} : Tensors{nothing, nothing});
    backward(at::stack(y).sum(0));
    EXPECT_TENSORS_CLOSE(x.grad(), (3 * ones(device)).cos());
  }

  static void scatter(c10::Device device) {
    const Tensors x = {ones(device).requires_grad_(), (ones(device) + 1).requires_grad_()};
    const at::Tensor y = functional::scatter(x, 1);
    EXPECT_TENSORS_CLOSE(y, ones(device) + rank());
    backward(y);
    const Tensors gradients = {x[0].grad(), x[1].grad()};
    const at::Tensor nothing = at::zeros({5, 5}, device);
    EXPECT_TENSORS_CLOSE(gradients, rank() == 1 ? Tensors{x[0].detach().cos(), x[1].detach().cos()}
                                                : Tensors{nothing, nothing});
  }
};

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_broadcast, {.ranks = 2}) {
  broadcast(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_broadcast_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  broadcast(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_reduce, {.ranks = 2}) {
  reduce(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_reduce_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  reduce(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_allreduce, {.ranks = 2}) {
  all_reduce(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_allreduce_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  all_reduce(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_gather, {.ranks = 2}) {
  all_gather(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_gather_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  all_gather(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_to_all, {.ranks = 2}) {
  all_to_all(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_to_all_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  all_to_all(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_to_all_single, {.ranks = 2}) {
  all_to_all_single(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_all_to_all_single_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  all_to_all_single(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_gather, {.ranks = 2}) {
  gather(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_gather_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  gather(gpu());
}

DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_scatter, {.ranks = 2}) {
  scatter(cpu());
}
DISTRIBUTED_TEST(spawn, TestDistributedNNFunctionsGloo, test_scatter_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  scatter(gpu());
}

}  // namespace
}  // namespace distrun
