#include "parallel/ddp/test/parity_net.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>

namespace distrun::testing {

ParityNetImpl::ParityNetImpl(bool sparse) {
  words = register_module("words",
                          torch::nn::Embedding(torch::nn::EmbeddingOptions(40, 8).sparse(sparse)));
  hidden = register_module("hidden", torch::nn::Linear(8, 64));
  norm = register_module("norm", torch::nn::BatchNorm1d(64));
  middle = register_module("middle", torch::nn::Linear(64, 64));
  extra = register_module("extra", torch::nn::Linear(64, 16));
  spare = register_module("spare", torch::nn::Linear(64, 16));
  last = register_module("last", torch::nn::Linear(64, 16));
  scale = register_parameter("scale", at::ones({16}, at::kDouble));
}

at::Tensor ParityNetImpl::forward(const at::Tensor& sentences, NetParts with) {
  at::Tensor x = at::relu(norm(hidden(words(sentences).mean(1))));
  x = x + at::relu(middle(x));
  at::Tensor y = last(x);
  if (with.extra) y = y + extra(x);
  if (with.spare) y = y + spare(x);
  return y.to(at::kDouble) * scale;
}

TensorDict state_of(const ParityNetImpl& net) {
  TensorDict state;
  for (const auto& one : net.named_parameters()) state.insert(one.key(), one.value().detach());
  for (const auto& one : net.named_buffers()) state.insert(one.key(), one.value());
  return state;
}

void load_state(const ParityNetImpl& net, const TensorDict& saved) {
  for (const auto& one : state_of(net)) one.value().copy_(saved.at(one.key()));
}

}  // namespace distrun::testing
