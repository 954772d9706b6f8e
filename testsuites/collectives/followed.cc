// A program whose collectives `distrun launch` follows:  followed CASE.
//
//     missing     rank 1 does not enter the last all_reduce
//     absent      rank 1 enters none
//     disagree    rank 2 calls the last all_reduce with another dtype
//     skip        rank 2 leaves out one all_reduce of five
//     again       rank 2 leaves out one all_reduce, which fails; then all create new groups
//     alike       ranks 1 and 2 are in inference mode; three all_reduce, and tensors of each dtype
//     killed      rank 1 is killed while two collectives are in progress
//     slow        rank 2 takes a tenth longer for each step
//     even        a thousand steps of the same length on every rank
//     values      collectives of many kinds and sizes, and steps of DDP
//     flip        in each of 100 groups, one bit of what a rank receives changes; rank 0 prints
//                 where.  With FLIP=none, no bit changes; with FLIP=input, rank 2 passes another
//                 value in the third collective of the first group instead
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "backends/group/forwarding_backend.h"
#include "distrun/backend_registry.h"
#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/point_to_point.h"
#include "distrun/process_group.h"

namespace {

std::string backend() {
  const char* const given = std::getenv("BACKEND");
  return given == nullptr ? "gloo" : given;
}

using std::chrono::milliseconds;

// Where a bit changes: all ranks compute the same.
struct Flip {
  int rank, step, bit;
  std::int64_t element;
};

std::vector<Flip> flips(int ranks) {
  std::mt19937 random(2026);
  std::vector<Flip> all;
  for (int i = 0; i < 100; ++i) {
    const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
    all.push_back({.rank = below(static_cast<unsigned>(ranks)),
                   .step = below(5),
                   .bit = below(32),
                   .element = below(1000)});
  }
  return all;
}

// Gloo, on a machine whose memory fails at one place.
class FlippingBackend : public distrun::internal::ForwardingBackend {
 public:
  explicit FlippingBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : ForwardingBackend(std::move(inner)) {}

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const auto work = ForwardingBackend::allreduce(tensors, options);
    if (next_ == nullptr || next_->step != step_++ || next_->rank != distrun::get_rank()) {
      return work;
    }
    work->wait();
    auto* const element = static_cast<float*>(tensors.front().data_ptr()) + next_->element;
    std::uint32_t bits = 0;
    std::memcpy(&bits, element, sizeof bits);
    bits ^= std::uint32_t{1} << next_->bit;
    std::memcpy(element, &bits, sizeof bits);
    return work;
  }

  static void begin(const Flip& flip) {
    next_ = &flip;
    step_ = 0;
  }

 private:
  inline static const Flip* next_ = nullptr;
  inline static int step_ = 0;
};

void run_steps(int steps, milliseconds work) {
  at::Tensor x = at::ones({1000});
  distrun::barrier();
  for (int step = 0; step < steps; ++step) {
    std::this_thread::sleep_for(work);  // The work of a rank.
    distrun::all_reduce(x, c10d::ReduceOp::MAX);
  }
}

void miss(int before) {
  at::Tensor x = at::ones({10, 100});
  for (int step = 0; step < before; ++step) distrun::all_reduce(x);
  if (distrun::get_rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  distrun::all_reduce(x);
}

void be_killed() {
  at::Tensor x = at::ones({10, 100}), y = x.clone();
  for (int step = 0; step < 5; ++step) distrun::all_reduce(x);
  distrun::barrier();  // All ranks have ended the steps.
  if (distrun::get_rank() != 1) std::this_thread::sleep_for(std::chrono::hours(1));
  const auto one = distrun::all_reduce(x, c10d::ReduceOp::SUM, {.async_op = true});
  const auto other = distrun::all_reduce(y, c10d::ReduceOp::SUM, {.async_op = true});
  std::raise(SIGKILL);
}

// Gloo may notice, and then ends ranks. So rank 2 comes when all others have entered.
void disagree() {
  const distrun::Group others_have_entered = distrun::new_group();
  for (int step = 0; step < 3; ++step) {
    at::Tensor x = at::ones({8});
    distrun::all_reduce(x);
  }
  const bool is_odd = distrun::get_rank() == 2;
  at::Tensor x = is_odd ? at::ones({4}, at::kDouble) : at::ones({8});
  if (is_odd) distrun::barrier({.group = others_have_entered});
  const auto work = distrun::all_reduce(x, c10d::ReduceOp::SUM, {.async_op = true});
  if (!is_odd) distrun::barrier({.group = others_have_entered});
  work.wait();
}

void skip() {
  for (int step = 0; step < 5; ++step) {
    at::Tensor x = at::ones({8});
    if (distrun::get_rank() != 2 || step != 1) distrun::all_reduce(x);
  }
}

void run_again() {
  at::Tensor x = at::ones({8});
  distrun::all_reduce(x);
  try {
    if (distrun::get_rank() != 2) distrun::all_reduce(x);
  } catch (const std::exception&) {  // Rank 2 has closed its connections.
  }
  distrun::destroy_process_group();
  distrun::init_process_group({.backend = backend(), .timeout = std::chrono::seconds(120)});
  for (const std::int64_t size : {1, 2, 3, 4}) {
    at::Tensor y = at::ones({size});
    distrun::all_reduce(y);
  }
}

// Pairs of ranks send, because Gloo broadcasts few dtypes.
void exchange_dtypes() {
  const int rank = distrun::get_rank();
  const c10::InferenceMode inference(rank == 1 || rank == 2);
  for (const std::int64_t size : {1, 2, 3}) {
    at::Tensor x = at::ones({size});
    distrun::all_reduce(x);
  }
  for (const auto dtype : {at::kFloat,
                           at::kDouble,
                           at::kHalf,
                           at::kBFloat16,
                           at::kByte,
                           at::kChar,
                           at::kShort,
                           at::kInt,
                           at::kLong,
                           at::kBool,
                           at::kUInt16,
                           at::kUInt32,
                           at::kUInt64,
                           at::kComplexHalf,
                           at::kComplexFloat,
                           at::kComplexDouble,
                           at::kFloat8_e4m3fn,
                           at::kFloat8_e5m2,
                           at::kFloat8_e4m3fnuz,
                           at::kFloat8_e5m2fnuz,
                           at::kFloat8_e8m0fnu}) {
    std::vector<at::Tensor> x = {at::empty({16}, dtype)};
    c10d::ProcessGroup& group = distrun::default_group();
    (rank % 2 == 0 ? group.send(x, rank + 1, 0) : group.recv(x, rank - 1, 0))->wait();
  }
}

// The Python program runs the same collectives, so that ranks of both can meet.
void exchange_values() {
  const int rank = distrun::get_rank(), ranks = distrun::get_world_size();
  for (const std::int64_t size : {0, 1, 2, 3, 17, 1000, 4099}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kLong, at::kByte}) {
      at::Tensor x = at::arange(size, dtype) + rank;
      distrun::all_reduce(x);
      distrun::broadcast(x, 0);
      std::vector<at::Tensor> all;
      for (int i = 0; i < ranks; ++i) all.push_back(at::empty_like(x));
      distrun::all_gather(all, x + rank);
    }
  }
  distrun::barrier();
  if (std::getenv("MIXED") != nullptr)
    return;  // DDP in C++ and in Python compare models differently.
  torch::manual_seed(1);
  torch::nn::Linear model(300, 7);
  distrun::DistributedDataParallel ddp(model);
  torch::optim::SGD optimizer(ddp.parameters(), 0.1);
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    ddp(at::full({4, 300}, 0.01 * (rank + step))).square().mean().backward();
    optimizer.step();  // Changes the input of the next collective, while digests may be made.
  }
}

void flip_bits() {
  const char* const variable = std::getenv("FLIP");
  const std::string_view mode = variable == nullptr ? "" : variable;
  const auto all = flips(distrun::get_world_size());
  std::vector<distrun::Group> groups;
  for (const Flip& flip : all) {
    groups.push_back(distrun::new_group(std::nullopt, {.backend = "flipping"}));
    if (mode.empty()) FlippingBackend::begin(flip);
    for (int step = 0; step < 5; ++step) {
      at::Tensor x = at::arange(1000, at::kFloat) + distrun::get_rank() + step;
      const bool is_other = mode == "input" && groups.size() == 1 && step == 2;
      if (is_other && distrun::get_rank() == 2) x[500] += 1;
      distrun::all_reduce(x, c10d::ReduceOp::SUM, {.group = groups.back()});
    }
    if (distrun::get_rank() == 0) {
      std::printf("%d %d %ld\n", flip.rank, flip.step + 1, static_cast<long>(flip.element));
    }
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string_view what = argv[1];
  distrun::register_backend(
      "flipping",
      [](const distrun::BackendRequest& request) {
        return c10::make_intrusive<FlippingBackend>(distrun::make_backend("gloo", request));
      },
      {c10::DeviceType::CPU});
  distrun::init_process_group({.backend = backend(), .timeout = std::chrono::seconds(120)});
  if (what == "missing") miss(5);
  if (what == "absent") miss(0);
  if (what == "disagree") disagree();
  if (what == "skip") skip();
  if (what == "again") run_again();
  if (what == "alike") exchange_dtypes();
  if (what == "killed") be_killed();
  if (what == "slow") run_steps(40, milliseconds(distrun::get_rank() == 2 ? 55 : 50));
  if (what == "even") run_steps(1000, milliseconds(20));
  if (what == "values") exchange_values();
  if (what == "flip") flip_bits();
  distrun::destroy_process_group();
  return 0;
}
