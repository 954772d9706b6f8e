// Ranks that stay away from a collective.
#include <chrono>
#include <cstdlib>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include "distrun/collectives.h"
#include "testsuites/nccl/nccl_test.h"

namespace distrun {
namespace {

class FailuresTest : public NcclTest {
 protected:
  // All ranks run a collective, which connects them.
  static at::Tensor after_a_collective() {
    const at::Tensor x = make(at::ones({3}));
    all_reduce(x);
    EXPECT_TENSORS_EQUAL(x, make(at::ones({3}) * size()));
    return x;
  }
};

DISTRIBUTED_TEST(nccl, FailuresTest, test_a_timeout_names_the_missing_rank_on_two_gpus,
                 {.ranks = 2, .min_gpus = 2, .backends = {"nccl"}}) {
  destroy_process_group();
  ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);  // wait() waits for the GPU, and throws.
  init_process_group("nccl", {.timeout = std::chrono::seconds(3)});
  const at::Tensor x = after_a_collective();
  if (rank() == 0) {
    const Work work = all_reduce(x, ReduceOp::SUM, {.async_op = true});
    EXPECT_THROWS_WITH(work.wait(), c10::DistBackendError, "rank 1 did not come");
  }
  rendezvous("rank 0 has its error");
  abort_process_group();
  destroy_process_group();
}

DISTRIBUTED_TEST(nccl, FailuresTest, test_abort_ends_a_collective_on_two_gpus,
                 {.ranks = 2, .min_gpus = 2, .backends = {"nccl"}}) {
  const at::Tensor x = after_a_collective();
  if (rank() == 0) {
    const Work work = all_reduce(x, ReduceOp::SUM, {.async_op = true});
    abort_process_group();
    // The GPU no longer waits for rank 1, so this copy ends.
    EXPECT_EQ(x.cpu().numel(), 3);
    EXPECT_THROWS_WITH(all_reduce(x), c10::DistBackendError, "the group has been aborted");
  }
  rendezvous("rank 0 has aborted");
  abort_process_group();
  destroy_process_group();
}

// The same without GPUs that wait: an abort ends the group at once.
NCCL_TEST(FailuresTest, test_an_aborted_group_runs_nothing) {
  const at::Tensor x = after_a_collective();
  rendezvous("all ranks have ended the collective");
  abort_process_group();
  EXPECT_THROWS_WITH(all_reduce(x), c10::DistBackendError, "the group has been aborted");
  destroy_process_group();
  EXPECT_FALSE(is_initialized());
}

}  // namespace
}  // namespace distrun
