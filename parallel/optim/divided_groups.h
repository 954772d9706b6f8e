// The parameter groups of a ZeroRedundancyOptimizer, and the rank that updates each parameter.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include "parallel/optim/parameter_partition.h"
#include "parallel/optim/parameter_sync.h"

namespace distrun::internal {

class DividedGroups {
 public:
  // Where a parameter belongs.
  struct Place {
    std::size_t group = 0;
    int owner = 0;  // The group rank that updates it.
  };

  DividedGroups(int rank, int ranks) : rank_(rank), ranks_(ranks), next_(ranks) {}

  // Assigns the groups that have no ranks yet.
  void add_new(const std::vector<torch::optim::OptimizerParamGroup>& all);

  // Throws c10::ValueError if a list has other parameters than when it was added.
  void check_lists(const std::vector<torch::optim::OptimizerParamGroup>& all) const;

  std::size_t size() const { return groups_.size(); }
  const std::vector<at::Tensor>& parameters_of(std::size_t group) const { return groups_[group]; }
  // The parameters that this rank updates.
  std::vector<at::Tensor> own_of(std::size_t group) const;
  std::vector<at::Tensor> own() const;
  // The same of each group, without frozen ones.
  std::vector<std::vector<at::Tensor>> own_to_update() const;
  // What each rank sends: its parameters that are not frozen.
  Shares shares() const;
  // Nothing if the optimizer does not have the parameter.
  std::optional<Place> place_of(const at::Tensor& parameter) const;

 private:
  // Calls visit(parameter, owner) for each parameter of a group, once.
  template <class Visit>
  void for_each_of(std::size_t group, const Visit& visit) const;

  int rank_, ranks_;
  ParameterPartition next_;
  std::vector<std::vector<at::Tensor>> groups_;   // A list can have a parameter several times.
  std::vector<std::vector<std::size_t>> firsts_;  // Where each parameter stands first in its list.
  std::unordered_map<const c10::TensorImpl*, Place> places_;
};

}  // namespace distrun::internal
