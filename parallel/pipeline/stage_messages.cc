#include "parallel/pipeline/stage_messages.h"

#include <cstddef>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "distrun/point_to_point.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr std::int64_t kNumbersOfAnnouncement = 4;

const char* name_of_step(StepKind kind) {
  return kind == StepKind::kTrain ? "step() with a loss" : "a step without backward";
}

std::vector<std::int64_t> numbers_in(const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu();
  const auto* const begin = here.const_data_ptr<std::int64_t>();
  return {begin, begin + here.numel()};
}

}  // namespace

void StageMessages::UnderWay::wait() {
  for (const Work& one : std::exchange(works, {})) one.wait();
}

StageMessages::StageMessages(Group group, const StagePlace& stage, at::Device device,
                             int microbatches)
    : group_(std::move(group)),
      stage_(stage),
      device_(device),
      microbatches_(microbatches),
      inputs_(at(microbatches)),
      outputs_(at(microbatches)) {}

void StageMessages::begin(StepKind kind, std::vector<ActivationFactsList> inputs) {
  kind_ = kind;
  announces_inputs_ = stage_.is_first() && inputs != inputs_;
  if (stage_.is_first()) inputs_ = std::move(inputs);
  announces_outputs_ = announces_inputs_;
  for (Direction* const one :
       {&inputs_received_, &outputs_sent_, &gradients_received_, &gradients_sent_, &announced_}) {
    one->assign(at(microbatches_), {});
  }
}

void StageMessages::finish() {
  for (Direction* const one : {&announced_, &outputs_sent_, &gradients_sent_}) {
    for (UnderWay& message : *one) message.wait();
  }
}

Work StageMessages::receive(const at::Tensor& tensor, int stage) const {
  return irecv(tensor, GroupRank(stage), {.group = group_});
}

Work StageMessages::send(const at::Tensor& tensor, int stage) const {
  return isend(tensor, GroupRank(stage), {.group = group_});
}

void StageMessages::wait_for_old(Direction& sends, int microbatch) const {
  if (microbatch >= stage_.count) sends[at(microbatch - stage_.count)].wait();
}

void StageMessages::receive_announcement(int microbatch) {
  const int from = stage_.index - 1;
  const at::Tensor announcement =
      at::empty({kNumbersOfAnnouncement}, at::TensorOptions(at::kLong).device(device_));
  receive(announcement, from).wait();
  const auto numbers = numbers_in(announcement);
  const auto kind = static_cast<StepKind>(numbers[0]);
  TORCH_CHECK_VALUE(kind == kind_ && numbers[1] == microbatches_, "pipeline on rank ", get_rank(),
                    ": stage ", from, " runs ", name_of_step(kind), " and ", numbers[1],
                    " micro-batches; stage ", stage_.index, " runs ", name_of_step(kind_), " and ",
                    microbatches_, "; every stage must call the same function");
  if (microbatch == 0) announces_inputs_ = announces_outputs_ = numbers[2] > 0;
  if (numbers[2] == 0) return;
  const at::Tensor facts = at::empty({numbers[2]}, announcement.options());
  receive(facts, from).wait();
  inputs_[at(microbatch)] = unpack_facts(numbers_in(facts));
}

void StageMessages::receive_input(int microbatch) {
  if (microbatch == 0 || announces_inputs_) receive_announcement(microbatch);
  UnderWay& message = inputs_received_[at(microbatch)];
  for (const ActivationFacts& one : inputs_[at(microbatch)]) {
    message.tensors.push_back(one.empty_on(device_));
    message.works.push_back(receive(message.tensors.back(), stage_.index - 1));
  }
}

std::vector<at::Tensor> StageMessages::wait_for_input(int microbatch) {
  UnderWay message = std::exchange(inputs_received_[at(microbatch)], {});
  message.wait();
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    message.tensors[i].requires_grad_(inputs_[at(microbatch)][i].requires_grad);
  }
  return std::move(message.tensors);
}

void StageMessages::send_announcement(int microbatch) {
  UnderWay& message = announced_[at(microbatch)];
  const auto add = [&](const std::vector<std::int64_t>& numbers) {
    message.tensors.push_back(at::tensor(numbers, at::kLong).to(device_));
    message.works.push_back(send(message.tensors.back(), stage_.index + 1));
  };
  const auto facts =
      announces_outputs_ ? pack_facts(outputs_[at(microbatch)]) : std::vector<std::int64_t>();
  add({static_cast<std::int64_t>(kind_), microbatches_, static_cast<std::int64_t>(facts.size()),
       0});
  if (!facts.empty()) add(facts);
}

void StageMessages::send_output(int microbatch, const std::vector<at::Tensor>& outputs) {
  ActivationFactsList facts = facts_of(outputs);
  ActivationFactsList& known = outputs_[at(microbatch)];
  if (microbatch == 0 && facts != known) announces_outputs_ = true;
  TORCH_CHECK_VALUE(announces_outputs_ || facts == known, "pipeline on rank ", get_rank(),
                    ": the outputs of stage ", stage_.index, " for micro-batch ", microbatch,
                    " have changed, but its inputs have the same sizes: ", change_of(known, facts));
  known = std::move(facts);
  if (microbatch == 0 || announces_outputs_) send_announcement(microbatch);
  // In training, wait_for_gradient() waits for it.
  if (kind_ == StepKind::kForward) wait_for_old(outputs_sent_, microbatch);
  UnderWay& message = outputs_sent_[at(microbatch)];
  for (const at::Tensor& one : outputs) {
    message.works.push_back(send(one.detach(), stage_.index + 1));
  }
}

void StageMessages::receive_gradient(int microbatch) {
  UnderWay& message = gradients_received_[at(microbatch)];
  for (const ActivationFacts& one : outputs_[at(microbatch)]) {
    message.tensors.push_back(one.requires_grad ? one.empty_on(device_) : at::Tensor());
    if (one.requires_grad) {
      message.works.push_back(receive(message.tensors.back(), stage_.index + 1));
    }
  }
}

std::vector<at::Tensor> StageMessages::wait_for_gradient(int microbatch) {
  UnderWay message = std::exchange(gradients_received_[at(microbatch)], {});
  message.wait();
  outputs_sent_[at(microbatch)].wait();  // The next stage must have had it.
  return std::move(message.tensors);
}

void StageMessages::send_gradient(int microbatch, const std::vector<at::Tensor>& gradients) {
  wait_for_old(gradients_sent_, microbatch);
  UnderWay& message = gradients_sent_[at(microbatch)];
  const ActivationFactsList& facts = inputs_[at(microbatch)];
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].requires_grad) continue;
    const at::Tensor gradient =
        gradients[i].defined() ? gradients[i] : facts[i].empty_on(device_).zero_();
    message.works.push_back(send(gradient, stage_.index - 1));
  }
}

}  // namespace distrun::internal
