#include "distrun/post_local_sgd_optimizer.h"

#include <utility>

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

namespace distrun {

PostLocalSGDOptimizer::PostLocalSGDOptimizer(std::shared_ptr<torch::optim::Optimizer> optim,
                                             std::shared_ptr<ModelAverager> averager)
    : optim_(std::move(optim)), averager_(std::move(averager)) {
  TORCH_CHECK_VALUE(optim_, "PostLocalSGDOptimizer: the optimizer is null");
  TORCH_CHECK_VALUE(averager_, "PostLocalSGDOptimizer: the averager is null");
}

at::Tensor PostLocalSGDOptimizer::step(const std::function<at::Tensor()>& closure) {
  at::Tensor loss = optim_->step(closure);
  averager_->average_parameters(optim_->param_groups());
  return loss;
}

void PostLocalSGDOptimizer::zero_grad(bool set_to_none) { optim_->zero_grad(set_to_none); }

void PostLocalSGDOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& param_group) {
  optim_->add_param_group(param_group);
}

ParamGroups& PostLocalSGDOptimizer::param_groups() { return optim_->param_groups(); }

void PostLocalSGDOptimizer::save(torch::serialize::OutputArchive& archive) const {
  optim_->save(archive);
  archive.write("step", c10::IValue(averager_->step()));
}

void PostLocalSGDOptimizer::load(torch::serialize::InputArchive& archive) {
  c10::IValue step;
  const bool has_step = archive.try_read("step", step);
  TORCH_CHECK(!has_step || (step.isInt() && step.toInt() >= 0),
              "PostLocalSGDOptimizer: the archive is damaged: 'step' is not what a "
              "PostLocalSGDOptimizer saves; load another one");
  optim_->load(archive);
  if (has_step) {
    averager_->set_step(step.toInt());
    return;
  }
  TORCH_WARN("PostLocalSGDOptimizer: the archive has no step of the averager, which starts at 0");
  averager_->set_step(0);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PostLocalSGDOptimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PostLocalSGDOptimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}

}  // namespace distrun
