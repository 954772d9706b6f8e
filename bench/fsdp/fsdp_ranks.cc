// The C++ ranks of fsdp_bench.py: as fsdp_ranks.py, with our FSDP. Rank 0 prints a line of JSON.
//
//     distrun launch --nproc-per-node 2 fsdp_ranks WIDTH UNITS STEPS
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <unistd.h>

#include "distrun/collectives.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/process_group.h"

namespace distrun::bench {
namespace {

constexpr int kBatch = 8;

// Counts the bytes of all tensors.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = inner_->allocate(bytes);
    void* const data = memory.get();
    if (data == nullptr) return memory;
    add(data, bytes);
    auto* const owner = new Owner{std::move(memory), this};
    return {data, owner, [](void* its) { delete static_cast<Owner*>(its); }, c10::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }

  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = now_.load(); }

 private:
  struct Owner {
    c10::DataPtr memory;
    CountingAllocator* counter;
    ~Owner() { counter->remove(memory.get()); }
  };
  void add(void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    sizes_[data] = bytes;
    now_ += static_cast<std::int64_t>(bytes);
    peak_ = std::max(peak_.load(), now_.load());
  }
  void remove(void* data) {
    const std::lock_guard lock(mutex_);
    now_ -= static_cast<std::int64_t>(sizes_.extract(data).mapped());
  }

  c10::Allocator* const inner_ = c10::GetCPUAllocator();
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  std::atomic<std::int64_t> now_ = 0, peak_ = 0;
};

struct LayerImpl : torch::nn::Module {
  torch::nn::Linear linear;
  explicit LayerImpl(int width)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return at::relu(linear(x)); }
};
TORCH_MODULE(Layer);
using Unit = FullyShardedDataParallel<Layer>;

struct NetImpl : torch::nn::Module {
  std::vector<std::shared_ptr<Unit>> units;
  NetImpl(int width, int count) {
    for (int i = 0; i < count; ++i) {
      units.push_back(
          register_module("unit" + std::to_string(i), std::make_shared<Unit>(Layer(width))));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& unit : units) x = unit->forward(x);
    return x;
  }
};

// The highest of all ranks.
double highest(double value) {
  const at::Tensor all = at::tensor({value}, at::kDouble);
  all_reduce(all, ReduceOp::MAX);
  return all.item<double>();
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

void run(int width, int count, int steps) {
  // Freed at exit, when tensors are gone.
  static auto* const memory = new CountingAllocator();
  c10::SetCPUAllocator(memory, /*priority=*/100);
  FullyShardedDataParallel fsdp(std::make_shared<NetImpl>(width, count));
  torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(1e-4));
  const at::Tensor input = at::randn({kBatch, width});
  const auto parameters = static_cast<double>(memory->now());
  double gradients = 0, state = 0, peak = 0;
  std::vector<double> milliseconds;
  for (int step = 0; step <= steps; ++step) {
    barrier();
    const auto start = std::chrono::steady_clock::now();
    memory->reset_peak();
    const auto before = static_cast<double>(memory->now());
    fsdp(input).pow(2).mean().backward();
    // Gloo's threads keep tensors for a moment.
    for (int i = 0; step == 0 && i < 10; ++i) barrier();
    const auto after_backward = static_cast<double>(memory->now());
    const double its_peak = static_cast<double>(memory->peak()) - before;
    optimizer.step();
    const auto after_step = static_cast<double>(memory->now());
    optimizer.zero_grad();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (step == 0) {  // Creates the optimizer's state, and does not prefetch in forward.
      gradients = after_backward - before;
      state = after_step - after_backward;
      continue;
    }
    peak = std::max(peak, its_peak);
    milliseconds.push_back(highest(took.count()));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const double resident = highest(resident_bytes());
  if (get_rank() != 0) return;
  fmt::print(
      "{{\"step_ms\": {:.1f}, \"parameters\": {}, \"gradients\": {}, \"state\": {}, \"peak\": {}, "
      "\"resident\": {}}}\n",
      milliseconds[milliseconds.size() / 2], parameters, gradients, state, peak, resident);
}

}  // namespace
}  // namespace distrun::bench

int main(int count, char** argv) {
  if (count != 4) {
    fmt::print(stderr, "usage: fsdp_ranks WIDTH UNITS STEPS\n");
    return 2;
  }
  at::set_num_threads(1);
  distrun::init_process_group("gloo");
  distrun::bench::run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
  distrun::barrier();
  distrun::destroy_process_group();
  return 0;
}
