#include "parallel/optim/divided_groups.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

bool is_same_list(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const at::Tensor& one, const at::Tensor& other) { return one.is_same(other); });
}

}  // namespace

void DividedGroups::add_new(const std::vector<torch::optim::OptimizerParamGroup>& all) {
  for (std::size_t g = groups_.size(); g < all.size(); ++g) {
    const std::vector<at::Tensor>& parameters = all[g].params();
    std::vector<std::size_t> firsts;
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!places_.emplace(parameters[i].unsafeGetTensorImpl(), Place{g, 0}).second) continue;
      firsts.push_back(i);
      sizes.push_back(parameters[i].numel());
    }
    const std::vector<int> owners = next_.assign(sizes);
    for (std::size_t i = 0; i < firsts.size(); ++i) {
      places_[parameters[firsts[i]].unsafeGetTensorImpl()].owner = owners[i];
    }
    groups_.push_back(parameters);
    firsts_.push_back(std::move(firsts));
  }
}

void DividedGroups::check_lists(const std::vector<torch::optim::OptimizerParamGroup>& all) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    TORCH_CHECK_VALUE(g < all.size() && is_same_list(all[g].params(), groups_[g]),
                      "ZeroRedundancyOptimizer: the parameters of group ", g,
                      " were changed; add parameters with add_param_group()");
  }
}

template <class Visit>
void DividedGroups::for_each_of(std::size_t group, const Visit& visit) const {
  for (const std::size_t i : firsts_[group]) {
    const at::Tensor& one = groups_[group][i];
    visit(one, places_.at(one.unsafeGetTensorImpl()).owner);
  }
}

std::vector<at::Tensor> DividedGroups::own_of(std::size_t group) const {
  std::vector<at::Tensor> own;
  for_each_of(group, [&](const at::Tensor& one, int owner) {
    if (owner == rank_) own.push_back(one);
  });
  return own;
}

std::vector<at::Tensor> DividedGroups::own() const {
  std::vector<at::Tensor> own;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<at::Tensor> its = own_of(g);
    own.insert(own.end(), its.begin(), its.end());
  }
  return own;
}

std::vector<std::vector<at::Tensor>> DividedGroups::own_to_update() const {
  std::vector<std::vector<at::Tensor>> lists;
  lists.reserve(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    lists.push_back(own_of(g));
    std::erase_if(lists.back(), [](const at::Tensor& one) { return !one.requires_grad(); });
  }
  return lists;
}

Shares DividedGroups::shares() const {
  Shares all(static_cast<std::size_t>(ranks_));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for_each_of(g, [&](const at::Tensor& one, int owner) {
      if (one.requires_grad()) all[static_cast<std::size_t>(owner)].push_back(one);
    });
  }
  return all;
}

std::optional<DividedGroups::Place> DividedGroups::place_of(const at::Tensor& parameter) const {
  const auto found = places_.find(parameter.unsafeGetTensorImpl());
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

}  // namespace distrun::internal
