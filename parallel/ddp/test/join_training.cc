#include "parallel/ddp/test/join_training.h"

#include <stdexcept>

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "distrun/process_group.h"

namespace distrun::testing {

namespace {

using Place = JoinFault::Place;

constexpr int kRanksMax = 4, kBatch = 6, kWords = 4;

std::shared_ptr<ParityNetImpl> make_net(const JoinPattern& pattern) {
  torch::manual_seed(pattern.seed * kRanksMax + static_cast<std::uint64_t>(get_rank()));
  return std::make_shared<ParityNetImpl>(/*sparse=*/false);
}

TensorDict make_data(const JoinPattern& pattern) {
  torch::manual_seed(pattern.seed);
  TensorDict data;
  data.insert("sentences", at::randint(40, {kJoinInputsMax, kRanksMax, kBatch, kWords}, at::kLong));
  data.insert("topics", at::randint(16, {kJoinInputsMax, kRanksMax, kBatch}, at::kLong));
  return data;
}

TensorDict copy_of(const TensorDict& tensors) {
  TensorDict copies;
  for (const auto& one : tensors) copies.insert(one.key(), one.value().clone());
  return copies;
}

}  // namespace

JoinTraining::JoinTraining(const JoinPattern& pattern)
    : pattern_(pattern),
      net_(make_net(pattern)),
      start_(copy_of(state_of(*net_))),
      data_(make_data(pattern)),
      ddp_(net_, pattern.options) {
  if (pattern_.half) ddp_.register_builtin_comm_hook(BuiltinCommHook::FP16_COMPRESS);
  counter_.in_main_hook = [this] { fail_where_planned(Place::kMainHook, main_hooks_++); };
  counter_.in_post_hook = [this] { fail_where_planned(Place::kPostHook, 0); };
}

void JoinTraining::fail_where_planned(JoinFault::Place place, int step) const {
  const auto& fault = pattern_.fault;
  if (fault && fault->place == place && fault->rank == get_rank() && fault->step == step) {
    throw std::runtime_error("the disk is on fire");
  }
}

void JoinTraining::run() {
  std::vector<std::reference_wrapper<Joinable>> joinables = {ddp_};
  if (pattern_.counter) {
    joinables.insert(pattern_.counter_first ? joinables.begin() : joinables.end(), counter_);
  }
  Join join(
      joinables,
      {.arguments = {{"divide_by_initial_world_size", pattern_.divide_by_initial_world_size}}});
  join.run([this] { train(); });
}

void JoinTraining::train() {
  torch::optim::SGD optimizer(ddp_.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const int inputs = pattern_.inputs[static_cast<std::size_t>(get_rank())];
  for (int step = 0; step < inputs; ++step) {
    if (pattern_.counter_first) step_of_counter(step);
    fail_where_planned(Place::kBody, step);
    const bool reduces = step % pattern_.sync_every == pattern_.sync_every - 1;
    if (reduces) {
      losses_.push_back(compute(step));
    } else {
      const auto alone = ddp_.no_sync();
      losses_.push_back(compute(step));
    }
    if (!pattern_.counter_first) step_of_counter(step);
    if (!reduces) continue;
    optimizer.step();
    ddp_.zero_grad(/*set_to_none=*/true);
  }
}

void JoinTraining::step_of_counter(int step) {
  if (!pattern_.counter) return;
  fail_where_planned(Place::kJoinable, step);
  counts_.push_back(counter_.step());
}

double JoinTraining::compute(int step) {
  const auto mine = [&](const char* name) { return data_.at(name)[step][get_rank()]; };
  const at::Tensor out = ddp_(mine("sentences"), NetParts::of(pattern_.uses, step, get_rank()));
  const at::Tensor loss = at::cross_entropy_loss(out, mine("topics"));
  fail_where_planned(Place::kBackward, step);
  loss.backward();
  return loss.item<double>();
}

}  // namespace distrun::testing
