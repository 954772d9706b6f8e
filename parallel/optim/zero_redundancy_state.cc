// The state of a ZeroRedundancyOptimizer in files.
#include <optional>
#include <string>
#include <vector>

#include <torch/serialize/input-archive.h>

#include "distrun/collectives.h"
#include "distrun/detail/zero_redundancy_core.h"
#include "parallel/optim/optimizer_archive.h"
#include "parallel/optim/zero_redundancy_impl.h"

namespace distrun::internal {

std::unique_ptr<torch::optim::Optimizer> ZeroRedundancyCore::consolidated(Optimizer& optimizer,
                                                                          AnyRank to,
                                                                          const Save& save) {
  impl_->take_new_groups();
  const std::vector<std::string> all = gather_bytes(optimizer_bytes(save), to, impl_->group);
  if (all.empty()) return nullptr;
  std::unique_ptr<Optimizer> whole = impl_->make_plain(optimizer.param_groups());
  whole->state().clear();
  for (const std::string& bytes : all) {
    load_optimizer_bytes(bytes, at::kCPU, [&](auto& archive) { whole->load(archive); });
  }
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    whole->param_groups()[g].set_options(optimizer.param_groups()[g].options().clone());
  }
  return whole;
}

void ZeroRedundancyCore::save(torch::serialize::OutputArchive& archive, const Save& save) const {
  save_share(archive, {impl_->rank, impl_->ranks}, save);
}

void ZeroRedundancyCore::load(Optimizer& optimizer, torch::serialize::InputArchive& archive,
                              const Load& load, const Save& save) {
  impl_->take_new_groups();
  std::optional<torch::serialize::InputArchive> share =
      open_share(archive, {impl_->rank, impl_->ranks});
  const std::vector<at::Tensor> own = impl_->groups.own();
  try {
    load(share ? *share : archive);
  } catch (...) {
    keep_state_of(own, optimizer);
    throw;
  }
  move_state_to(own, optimizer, save, load);
}

}  // namespace distrun::internal
