// Code that is a TypeError in Python and does not compile here. For each comment "Says: …",
// ddp_misuse_test.py expects an error in the next line that matches the pattern, and no other
// errors.
#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/distributed_data_parallel.h"

namespace {

using distrun::DistributedDataParallel;
using distrun::Future;

Future hook(c10d::GradBucket& bucket) { return distrun::completed_future(bucket.getBuffer()); }
Future hook_of_tensor(const at::Tensor& tensor) { return distrun::completed_future(tensor); }
int hook_of_int(c10d::GradBucket&) { return 1; }
at::Tensor hook_of_no_future(c10d::GradBucket& bucket) { return bucket.getBuffer(); }
struct HookThatMoves {
  std::unique_ptr<int> state;
  Future operator()(c10d::GradBucket& bucket) { return hook(bucket); }
};
struct CallableHook {
  Future operator()(c10d::GradBucket& bucket) { return hook(bucket); }
};

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, int times) { return x * times; }
};
TORCH_MODULE(Net);

struct Unknown {
  at::Tensor tensor;
};
struct HasUnknown {
  Unknown unknown;
};
template <class Visit>
void visit_tensors(HasUnknown& value, const Visit& visit) {
  visit(value.unknown);
}

struct ReturnsUnknown : torch::nn::Module {
  Unknown forward(const at::Tensor& x) { return {x}; }
};
struct NoModule {
  at::Tensor forward(const at::Tensor& x) { return x; }
};
struct NoForward : torch::nn::Module {};

void right_use(DistributedDataParallel<NetImpl>& ddp, const at::Tensor& x) {
  ddp(x, 2).sum().backward();
  ddp.forward(x + 1, 2.5);
  ddp.register_comm_hook(hook);
  ddp.register_comm_hook(CallableHook(), "callable");
  ddp.register_comm_hook(std::function(hook));
  DistributedDataParallel of_holder(Net(), {.bucket_cap_mb = 1});
  DistributedDataParallel without_forward(std::make_shared<NoForward>());
}

void hooks(DistributedDataParallel<NetImpl>& ddp) {
  // Says: error: no matching .*register_comm_hook.*TakesGradBucket
  ddp.register_comm_hook(1);
  // Says: error: no matching .*register_comm_hook.*TakesGradBucket
  ddp.register_comm_hook(hook_of_tensor);
  // Says: error: no matching .*register_comm_hook.*ReturnsFuture
  ddp.register_comm_hook(hook_of_int);
  // Says: error: no matching .*register_comm_hook.*ReturnsFuture
  ddp.register_comm_hook(hook_of_no_future);
  // Says: error: no matching .*register_comm_hook.*copy_constructible
  ddp.register_comm_hook(HookThatMoves());
}

void modules() {
  // Says: error: static assertion failed.*: DistributedDataParallel needs a torch::nn::Module
  DistributedDataParallel of_no_module(std::make_shared<NoModule>());
}

void arguments(DistributedDataParallel<NetImpl>& ddp, DistributedDataParallel<NoForward>& without,
               const at::Tensor& x) {
  // Says: error: no match.*ForwardsWith.*Arguments = .const at::Tensor&}
  ddp(x);
  // Says: error: no match.*ForwardsWith.*Arguments = .const at::Tensor&, const char
  ddp.forward(x, "twice");
  // Says: error: no match.*ForwardsWith
  without(x);
}

void outputs(DistributedDataParallel<ReturnsUnknown>& ddp, const at::Tensor& x) {
  // Says: error: static assertion failed.*distrun cannot find or replace the tensors in the result
  ddp(x);
}

void visits(Unknown& unknown, HasUnknown& has_unknown, const std::vector<at::Tensor>& tensors) {
  const auto ignore = [](at::Tensor&) {};
  // Says: error: no matching .*for_each_tensor.*KnowsTensors
  distrun::for_each_tensor(unknown, ignore);
  // Says: error: no matching .*for_each_tensor.*KnowsTensors
  distrun::for_each_tensor(tensors, ignore);
  // Says: error: static assertion failed.*the tensors in this value cannot be found.*write a visit
  distrun::for_each_tensor(has_unknown, ignore);
}

}  // namespace
