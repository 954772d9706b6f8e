#include "backends/process_group.h"

#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/gloo.h"
#include "backends/rendezvous.h"

namespace distrun {

namespace {

using c10d::ProcessGroup;

// The names under which torch.distributed keeps the default group in the store.
constexpr const char* kDefaultGroupPrefix = "default_pg";
constexpr const char* kDefaultGroupName = "0";

// A group made again after destroy_process_group() must not read what the one before has left
// in the store: its addresses are those of closed sockets.
int groups_made = 0;

std::string store_prefix() {
  if (groups_made == 0) return kDefaultGroupPrefix;
  return kDefaultGroupPrefix + std::string("#") + std::to_string(groups_made);
}

// Never destroyed at exit: Gloo's threads may still run there.
c10::intrusive_ptr<ProcessGroup>& the_group() {
  static auto* group = new c10::intrusive_ptr<ProcessGroup>();
  return *group;
}

ProcessGroup& group() {
  TORCH_CHECK(the_group(), "no process group: call init_process_group() first");
  return *the_group();
}

// Runs a collective.  What Gloo throws becomes the error that the header promises.
template <class Act>
void run_collective(const char* name, const Act& act) {
  try {
    act();
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, name, " on rank ", get_rank(), " of ",
                     get_world_size(), ": ", error.what());
  }
}

void check_source(int src) {
  TORCH_CHECK(0 <= src && src < get_world_size(), "broadcast on rank ", get_rank(), ": src is ",
              src, ", and the ranks are 0 to ", get_world_size() - 1);
}

}  // namespace

void init_process_group(const InitOptions& options) {
  TORCH_CHECK(!is_initialized(), "init_process_group: there is a process group already");
  TORCH_CHECK(options.backend == "gloo", "init_process_group: unknown backend '", options.backend,
              "'; known: gloo");
  const Rendezvous met =
      rendezvous(Environment::from(environ), options.init_method, options.timeout);

  const auto default_store = c10::make_intrusive<c10d::PrefixStore>(store_prefix(), met.store);
  const auto group_store =
      c10::make_intrusive<c10d::PrefixStore>(std::string(kDefaultGroupName) + "/", default_store);
  auto made = c10::make_intrusive<ProcessGroup>(group_store, met.rank, met.world_size);
  // Python makes one backend for the first device and gives it to the others.
  const auto backend =
      make_gloo_backend(c10::make_intrusive<c10d::PrefixStore>("cpu/", group_store), met.rank,
                        met.world_size, options.timeout);
  made->setDefaultBackend(ProcessGroup::BackendType::GLOO);
  for (const auto device : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    made->setBackend(device, ProcessGroup::BackendType::GLOO, backend);
  }
  made->setGroupName(kDefaultGroupName);
  made->setGroupDesc(kDefaultGroupPrefix);
  the_group() = std::move(made);
  ++groups_made;
}

void init_process_group(const std::string& backend) {
  init_process_group(InitOptions{.backend = backend});
}

void destroy_process_group() {
  group();
  the_group().reset();
}

bool is_initialized() { return static_cast<bool>(the_group()); }

ProcessGroup& default_group() { return group(); }

int get_rank() { return group().getRank(); }

int get_world_size() { return group().getSize(); }

void all_reduce(at::Tensor tensor, ReduceOp op) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  ProcessGroup& ranks = group();
  run_collective("all_reduce",
                 [&] { ranks.allreduce(tensors, {.reduceOp = std::move(op)})->wait(); });
}

void broadcast(at::Tensor tensor, int src) {
  check_source(src);
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  ProcessGroup& ranks = group();
  run_collective("broadcast", [&] { ranks.broadcast(tensors, {.rootRank = src})->wait(); });
}

void barrier() {
  ProcessGroup& ranks = group();
  run_collective("barrier", [&] { ranks.barrier()->wait(); });
}

}  // namespace distrun
