// The ranks in C++ of ddp_parity_test.py: what ddp_parity_ranks.py does, with our DDP.
//
//     distrun launch --nproc-per-node 2 ddp_parity_ranks FOLDER RUN
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include "backends/collectives.h"
#include "backends/process_group.h"
#include "parallel/distributed_data_parallel.h"

namespace distrun {
namespace {

using nlohmann::json;
using TensorDict = c10::Dict<std::string, at::Tensor>;

struct Parts {
  bool extra, spare;
};

// Small and large parameters, two dtypes, buffers, and parts that not every forward uses.
struct NetImpl : torch::nn::Module {
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear middle{nullptr}, extra{nullptr}, spare{nullptr}, last{nullptr};
  at::Tensor scale;

  explicit NetImpl(bool sparse) {
    words = register_module(
        "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(40, 8).sparse(sparse)));
    hidden = register_module("hidden", torch::nn::Linear(8, 64));
    norm = register_module("norm", torch::nn::BatchNorm1d(64));
    middle = register_module("middle", torch::nn::Linear(64, 64));
    extra = register_module("extra", torch::nn::Linear(64, 16));
    spare = register_module("spare", torch::nn::Linear(64, 16));
    last = register_module("last", torch::nn::Linear(64, 16));
    scale = register_parameter("scale", at::ones({16}, at::kDouble));
  }

  at::Tensor forward(const at::Tensor& sentences, Parts with) {
    at::Tensor x = at::relu(norm(hidden(words(sentences).mean(1))));
    x = x + at::relu(middle(x));
    at::Tensor y = last(x);
    if (with.extra) y = y + extra(x);
    if (with.spare) y = y + spare(x);
    return y.to(at::kDouble) * scale;
  }
};

using Ddp = DistributedDataParallel<NetImpl>;

// What the built-in FP16_COMPRESS does.
Future half_hook(c10d::GradBucket& bucket) {
  const at::Tensor buffer = bucket.getBuffer();
  const at::Tensor half = buffer.to(at::kHalf).div_(get_world_size());
  const auto reduced = all_reduce(half, ReduceOp::SUM, {.async_op = true}).get_future();
  return reduced->then(
      [dtype = buffer.scalar_type()](c10::ivalue::Future& done) {
        return done.value().toTensorVector()[0].to(dtype);
      },
      c10::TensorType::get());
}

DdpOptions options_of(const json& variant) {
  DdpOptions options;
  for (const auto& [name, value] : variant.at("options").items()) {
    if (name == "bucket_cap_mb") {
      options.bucket_cap_mb = value.get<double>();
    } else if (name == "find_unused_parameters") {
      options.find_unused_parameters = value.get<bool>();
    } else if (name == "static_graph") {
      options.static_graph = value.get<bool>();
    } else if (name == "gradient_as_bucket_view") {
      options.gradient_as_bucket_view = value.get<bool>();
    } else if (name == "broadcast_buffers") {
      options.broadcast_buffers = value.get<bool>();
    } else {
      TORCH_CHECK_VALUE(false, "no option of this program: ", name);
    }
  }
  return options;
}

void register_hook(Ddp& ddp, const std::string& hook) {
  if (hook == "FP16_COMPRESS") ddp.register_builtin_comm_hook(BuiltinCommHook::FP16_COMPRESS);
  if (hook == "own") ddp.register_comm_hook(half_hook, "half_hook");
}

Parts parts_used(const json& variant, int step, int rank) {
  if (variant.at("uses") == "all") return {.extra = true, .spare = true};
  return {.extra = variant.at("uses") == "all but spare" || (step + rank) % 3 == 0, .spare = false};
}

// A forward and a backward; the loss.
double compute(Ddp& ddp, const TensorDict& data, int step, Parts parts) {
  const auto mine = [&](const char* name) { return data.at(name)[step][get_rank()]; };
  const at::Tensor out = ddp(mine("sentences"), parts);
  const at::Tensor loss = torch::nn::functional::cross_entropy(out, mine("topics"));
  loss.backward();
  return loss.item<double>();
}

std::vector<double> train(Ddp& ddp, const json& variant, const TensorDict& data) {
  torch::optim::SGD optimizer(ddp.parameters(),
                              torch::optim::SGDOptions(variant.at("lr").get<double>())
                                  .momentum(variant.at("momentum").get<double>()));
  const int sync_every = variant.at("sync_every").get<int>();
  std::vector<double> losses;
  for (int step = 0; step < data.at("sentences").size(0); ++step) {
    const Parts parts = parts_used(variant, step, get_rank());
    if (step % sync_every != sync_every - 1) {
      const auto alone = ddp.no_sync();
      losses.push_back(compute(ddp, data, step, parts));
      continue;
    }
    losses.push_back(compute(ddp, data, step, parts));
    optimizer.step();
    // Not the optimizer's: it detaches in place, which views do not allow.
    ddp.zero_grad(variant.at("set_to_none").get<bool>());
  }
  return losses;
}

TensorDict load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path.string());
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  TensorDict tensors;
  for (const auto& one : torch::pickle_load(bytes).toGenericDict()) {
    tensors.insert(one.key().toStringRef(), one.value().toTensor());
  }
  return tensors;
}

// Its parameters and buffers, by name.
TensorDict state_of(const NetImpl& net) {
  TensorDict state;
  for (const auto& one : net.named_parameters()) state.insert(one.key(), one.value().detach());
  for (const auto& one : net.named_buffers()) state.insert(one.key(), one.value());
  return state;
}

void load_state(const NetImpl& net, const TensorDict& saved) {
  for (const auto& one : state_of(net)) one.value().copy_(saved.at(one.key()));
}

void run_variant(const json& variant, const std::filesystem::path& folder, const std::string& run) {
  torch::manual_seed(static_cast<std::uint64_t>(get_rank()));
  const auto net = std::make_shared<NetImpl>(variant.at("sparse").get<bool>());
  if (get_rank() == 0) load_state(*net, load(folder / "start.pt"));  // The others get it from it.
  Ddp ddp(net, options_of(variant));
  register_hook(ddp, variant.at("hook"));
  const std::vector<double> losses = train(ddp, variant, load(folder / "data.pt"));
  const std::string to =
      run + "." + variant.at("name").get<std::string>() + "." + std::to_string(get_rank());
  const std::vector<char> bytes = torch::pickle_save(state_of(*net));
  std::ofstream(folder / (to + ".pt"), std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto logged = ddp.get_ddp_logging_data();
  json logging = logged.strs_map;
  logging.update(json(logged.ints_map));
  std::ofstream(folder / (to + ".json")) << json{{"losses", losses}, {"logging", logging}};
}

}  // namespace
}  // namespace distrun

int main(int, char** argv) {
  const std::filesystem::path folder = argv[1];
  at::set_num_threads(1);
  distrun::init_process_group("gloo");
  std::ifstream file(folder / "variants.json");
  for (const auto& variant : nlohmann::json::parse(file)) {
    distrun::run_variant(variant, folder, argv[2]);
  }
  distrun::barrier();
  distrun::destroy_process_group();
  return 0;
}
