// A parent owns tensors, and two processes that it spawns run a collective on them. They return
// results through one queue; through the other the parent lets them exit.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "distrun/spawn.h"
#include "distrun/testing.h"

namespace distrun {
namespace {

constexpr int kProcesses = 2;
constexpr std::chrono::seconds kTimeout{30};

// One of the two processes, with its group.
class Member {
 public:
  Member(int rank, SpawnArguments& arguments)
      : rank_(rank), c2p_(arguments.queues.at(0)), p2c_(arguments.queues.at(1)) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WORLD_SIZE", std::to_string(kProcesses).c_str(), 1);
    ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
    init_process_group("gloo", {.init_method = "file://" + arguments.text, .timeout = kTimeout});
  }

  // Sends copies: shared tensors may change before the parent reads them.
  void tell(const at::Tensor& expected, const at::Tensor& result) const {
    const auto copy = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, false, true); };
    c2p_.put({{copy(expected), copy(result)}, std::to_string(rank_)}, kTimeout);
  }

  // Waits until the parent has the results.
  void wait() const { p2c_.get(kTimeout); }

 private:
  int rank_;
  TensorQueue c2p_, p2c_;
};

std::vector<at::Tensor> gathered(const at::Tensor& tensor) {
  std::vector<at::Tensor> all(kProcesses);
  for (at::Tensor& one : all) one = at::zeros_like(tensor);
  all_gather(all, tensor);
  return all;
}

void broadcast_shared(int rank, SpawnArguments& arguments) {
  const Member member(rank, arguments);
  at::Tensor x = arguments.tensors.at(static_cast<std::size_t>(rank));
  broadcast(x, 0);
  member.tell(at::zeros({2, 2}), x);
  member.wait();
  destroy_process_group();
}

void allreduce_shared(int rank, SpawnArguments& arguments) {
  const Member member(rank, arguments);
  at::Tensor x = arguments.tensors.at(static_cast<std::size_t>(rank));
  all_reduce(x);
  member.tell(at::full({2, 2}, 2.0f), x);
  member.wait();
  destroy_process_group();
}

// Each stores the other's data in its own tensor.
void allgather_shared(int rank, SpawnArguments& arguments) {
  const Member member(rank, arguments);
  const at::Tensor x = arguments.tensors.at(static_cast<std::size_t>(rank));
  const std::vector<at::Tensor> ys = gathered(x);
  for (std::size_t i = 0; i < kProcesses; ++i) {
    member.tell(at::full({2, 2}, static_cast<float>(i)), ys[i]);
  }
  member.wait();
  x.copy_(ys.at(static_cast<std::size_t>(1 - rank)));
  destroy_process_group();
}

// Each has a part of one tensor, and stores the sum of all parts in it.
void allgather_chunk_shared(int rank, SpawnArguments& arguments) {
  const Member member(rank, arguments);
  const std::vector<at::Tensor> chunks = arguments.tensors.at(0).chunk(kProcesses, 0);
  const at::Tensor x = chunks.at(static_cast<std::size_t>(rank));
  const std::vector<at::Tensor> ys = gathered(x);
  for (std::size_t i = 0; i < kProcesses; ++i) member.tell(chunks[i], ys[i]);
  member.wait();
  x.copy_(ys[0].add(ys[1]));
  destroy_process_group();
}

const SpawnFunction kBroadcast("share_tensor broadcast", broadcast_shared);
const SpawnFunction kAllreduce("share_tensor allreduce", allreduce_shared);
const SpawnFunction kAllgather("share_tensor allgather", allgather_shared);
const SpawnFunction kAllgatherChunk("share_tensor allgather chunk", allgather_chunk_shared);

class ProcessGroupShareTensorTest : public DistributedTest {
 protected:
  using Tensors = std::vector<at::Tensor>;

  // Each process returns `results` results.
  static void share(const SpawnFunction& function, const Tensors& tensors, int results) {
    const TensorQueue c2p(2, "c2p"), p2c(2, "p2c");
    ProcessContext context = start_processes(function, kProcesses,
                                             {.arguments = {.tensors = tensors,
                                                            .queues = {c2p.writer(), p2c.reader()},
                                                            .text = shared_path("ranks")}});
    try {
      for (int i = 0; i < kProcesses * results; ++i) {
        const TensorQueue::Item item = c2p.get(kTimeout);
        EXPECT_TENSORS_CLOSE(item.tensors.at(1), item.tensors.at(0)) << "on rank " << item.text;
      }
      for (int i = 0; i < kProcesses; ++i) p2c.put({}, kTimeout);
    } catch (const c10::DistError&) {  // The cause is thrown by finish().
      context.finish(kTimeout);
      throw;
    }
    context.finish(kTimeout);
  }

  static Tensors on(const std::vector<c10::Device>& devices, Tensors tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = tensors[i].to(devices[i]);
    return tensors;
  }
  static std::vector<c10::Device> cpu() { return {at::kCPU, at::kCPU}; }
  // With DISTRUN_SHARE_GPUS=1 there may be only one.
  static std::vector<c10::Device> gpus() {
    const auto last = static_cast<c10::DeviceIndex>(torch::cuda::device_count() - 1);
    return {{at::kCUDA, 0}, {at::kCUDA, std::min<c10::DeviceIndex>(1, last)}};
  }

  static void share_broadcast(const std::vector<c10::Device>& devices) {
    const Tensors tensors = on(devices, {at::zeros({2, 2}), at::ones({2, 2})});
    share(kBroadcast, tensors, 1);
    EXPECT_TENSORS_CLOSE(tensors, on(devices, {at::zeros({2, 2}), at::zeros({2, 2})}));
  }

  static void share_allreduce(const std::vector<c10::Device>& devices) {
    const Tensors tensors = on(devices, {at::ones({2, 2}), at::ones({2, 2})});
    share(kAllreduce, tensors, 1);
    EXPECT_TENSORS_CLOSE(tensors, on(devices, {at::full({2, 2}, 2.0f), at::full({2, 2}, 2.0f)}));
  }

  static void share_allgather(const std::vector<c10::Device>& devices) {
    const Tensors tensors = on(devices, {at::zeros({2, 2}), at::ones({2, 2})});
    share(kAllgather, tensors, kProcesses);
    EXPECT_TENSORS_CLOSE(tensors, on(devices, {at::ones({2, 2}), at::zeros({2, 2})}));
  }

  static void share_allgather_chunk(const std::vector<c10::Device>& devices) {
    const Tensors tensors = on(devices, {at::arange(4).reshape({2, 2})});
    share(kAllgatherChunk, tensors, kProcesses);
    EXPECT_TENSORS_CLOSE(tensors, on(devices, {at::tensor({2, 4, 2, 4}, at::kLong).view({2, 2})}));
  }
};

DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_broadcast_gloo, {.ranks = 1}) {
  share_broadcast(cpu());
}
DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_broadcast_gloo_cuda,
                 {.ranks = 1, .min_gpus = 2}) {
  share_broadcast(gpus());
}

DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allreduce_gloo, {.ranks = 1}) {
  share_allreduce(cpu());
}
DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allreduce_gloo_cuda,
                 {.ranks = 1, .min_gpus = 2}) {
  share_allreduce(gpus());
}

DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allgather_gloo, {.ranks = 1}) {
  share_allgather(cpu());
}
DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allgather_gloo_cuda,
                 {.ranks = 1, .min_gpus = 2}) {
  share_allgather(gpus());
}

DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allgather_chunk_gloo,
                 {.ranks = 1}) {
  share_allgather_chunk(cpu());
}
DISTRIBUTED_TEST(spawn, ProcessGroupShareTensorTest, test_shared_allgather_chunk_gloo_cuda,
                 {.ranks = 1, .min_gpus = 2}) {
  share_allgather_chunk(gpus());
}

}  // namespace
}  // namespace distrun
