#include "parallel/optim/optimizer_archive.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

constexpr const char *kShare = "zero_redundancy_share", *kRank = "rank", *kRanks = "ranks";

using State = std::remove_reference_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

std::int64_t read_int(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

}  // namespace

void save_share(torch::serialize::OutputArchive& archive, ShareOwner owner,
                const SaveFunction& save) {
  if (owner.ranks == 1) {
    save(archive);
    return;
  }
  torch::serialize::OutputArchive share(archive.compilation_unit());
  save(share);
  archive.write(kShare, share);
  archive.write(kRank, c10::IValue(owner.rank));
  archive.write(kRanks, c10::IValue(owner.ranks));
}

std::optional<torch::serialize::InputArchive> open_share(torch::serialize::InputArchive& archive,
                                                         ShareOwner owner) {
  torch::serialize::InputArchive share;
  if (!archive.try_read(kShare, share)) return std::nullopt;
  const std::int64_t rank = read_int(archive, kRank), ranks = read_int(archive, kRanks);
  TORCH_CHECK_VALUE(rank == owner.rank && ranks == owner.ranks,
                    "ZeroRedundancyOptimizer: the archive has the share of group rank ", rank,
                    " of ", ranks, " ranks, and this is group rank ", owner.rank, " of ",
                    owner.ranks, "; to load on other ranks, save consolidate_state_dict()");
  return share;
}

std::string optimizer_bytes(const SaveFunction& save) {
  torch::serialize::OutputArchive archive;
  save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

void load_optimizer_bytes(const std::string& bytes, c10::Device device, const LoadFunction& load) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), device);
  load(archive);
}

void keep_state_of(const std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer) {
  State kept;
  for (const at::Tensor& one : parameters) {
    const auto found = optimizer.state().find(one.unsafeGetTensorImpl());
    if (found != optimizer.state().end()) kept[found->first] = std::move(found->second);
  }
  optimizer.state() = std::move(kept);
}

void move_state_to(const std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                   const SaveFunction& save, const LoadFunction& load) {
  keep_state_of(parameters, optimizer);
  if (optimizer.state().empty()) return;
  const std::string bytes = optimizer_bytes(save);
  std::vector<c10::Device> devices;
  State moved;
  for (const at::Tensor& first : parameters) {
    if (std::find(devices.begin(), devices.end(), first.device()) != devices.end()) continue;
    devices.push_back(first.device());
    load_optimizer_bytes(bytes, first.device(), load);
    for (const at::Tensor& one : parameters) {
      if (one.device() != first.device()) continue;
      const auto found = optimizer.state().find(one.unsafeGetTensorImpl());
      if (found != optimizer.state().end()) moved[found->first] = std::move(found->second);
    }
  }
  optimizer.state() = std::move(moved);
}

}  // namespace distrun::internal
