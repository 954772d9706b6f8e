// The share of an optimizer's state that a rank has, in archives of torch::save().
//
// The archive of a share has its data one level deeper than that of a plain optimizer, which would
// otherwise load it, and silently have no state of the other parameters.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

namespace distrun::internal {

using SaveFunction = std::function<void(torch::serialize::OutputArchive&)>;
using LoadFunction = std::function<void(torch::serialize::InputArchive&)>;

// The rank and the number of ranks.
struct ShareOwner {
  int rank, ranks;
};

void save_share(torch::serialize::OutputArchive& archive, ShareOwner owner,
                const SaveFunction& save);
// The data of a share, in the form of a plain optimizer; nothing if it is the archive of one.
//
// Throws c10::ValueError if it is the share of another owner.
std::optional<torch::serialize::InputArchive> open_share(torch::serialize::InputArchive& archive,
                                                         ShareOwner owner);

// The file of an optimizer as bytes, and back, with all tensors on this device.
std::string optimizer_bytes(const SaveFunction& save);
void load_optimizer_bytes(const std::string& bytes, c10::Device device, const LoadFunction& load);

// Moves the state of each parameter to its device, and removes the state of other parameters.
void move_state_to(const std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                   const SaveFunction& save, const LoadFunction& load);
void keep_state_of(const std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer);

}  // namespace distrun::internal
