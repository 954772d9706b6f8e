// The C++ ranks of ddp_parity_test.py; ddp_parity_worker.py trains the same.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/process_group.h"
#include "parallel/ddp/test/parity_net.h"
#include "parallel/test/parity_worker.h"

namespace distrun {
namespace {

using nlohmann::json;

using testing::load;
using testing::load_state;
using testing::NetParts;
using testing::ParityNetImpl;
using testing::save;
using testing::state_of;
using testing::TensorDict;

using Ddp = DistributedDataParallel<ParityNetImpl>;

// Does what the built-in FP16_COMPRESS does.
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

double compute(Ddp& ddp, const TensorDict& data, int step, NetParts parts) {
  const auto mine = [&](const char* name) { return data.at(name)[step][get_rank()]; };
  const at::Tensor out = ddp(mine("sentences"), parts);
  const at::Tensor loss = torch::nn::functional::cross_entropy(out, mine("topics"));
  loss.backward();
  return loss.item<double>();
}

std::vector<double> train_steps(Ddp& ddp, const json& variant, const TensorDict& data) {
  torch::optim::SGD optimizer(ddp.parameters(),
                              torch::optim::SGDOptions(variant.at("lr").get<double>())
                                  .momentum(variant.at("momentum").get<double>()));
  const int sync_every = variant.at("sync_every").get<int>();
  std::vector<double> losses;
  for (int step = 0; step < data.at("sentences").size(0); ++step) {
    const NetParts parts = NetParts::of(variant.at("uses"), step, get_rank());
    if (step % sync_every != sync_every - 1) {
      const auto alone = ddp.no_sync();
      losses.push_back(compute(ddp, data, step, parts));
      continue;
    }
    losses.push_back(compute(ddp, data, step, parts));
    optimizer.step();
    // The optimizer's zero_grad() detaches in place, which views do not allow.
    ddp.zero_grad(variant.at("set_to_none").get<bool>());
  }
  return losses;
}

void train_variant(const json& variant, const testing::ParityRun& run) {
  torch::manual_seed(static_cast<std::uint64_t>(get_rank()));
  const auto net = std::make_shared<ParityNetImpl>(variant.at("sparse").get<bool>());
  if (get_rank() == 0) load_state(*net, load(run.folder / "start.pt"));  // Broadcast to the others.
  Ddp ddp(net, options_of(variant));
  register_hook(ddp, variant.at("hook"));
  const std::vector<double> losses = train_steps(ddp, variant, load(run.folder / "data.pt"));
  const std::string to =
      run.name + "." + variant.at("name").get<std::string>() + "." + std::to_string(get_rank());
  save(run.folder / (to + ".pt"), state_of(*net));
  const auto logged = ddp.get_ddp_logging_data();
  json logging = logged.strs_map;
  logging.update(json(logged.ints_map));
  std::ofstream(run.folder / (to + ".json")) << json{{"losses", losses}, {"logging", logging}};
}

}  // namespace

void testing::run_ddp_parity(const ParityRun& run) {
  std::ifstream file(run.folder / "variants.json");
  for (const auto& variant : json::parse(file)) train_variant(variant, run);
}

}  // namespace distrun
