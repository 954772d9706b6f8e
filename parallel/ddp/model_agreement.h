// Finds differences between the ranks' models, and names the parameter on every rank. LibTorch's
// own check (verify_params_across_processes) reports sizes only on ranks that differ from the
// first.
//
//     const ModelAgreement agreement(*group, names_and_parameters);
//     c10d::verify_params_across_processes(…);  // Ends after every rank has called it.
//     agreement.difference(ranks);              // "parameter 'p1' is [2] Float on rank 0, …"
//
// It uses the group's store and no collective, so ranks in Python need not take part.
//
// Cost: six requests to the store; if models differ, up to two more per rank.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace distrun::internal {

struct NamedParameter {
  std::string name, facts;  // "p1", "[2, 3] Float"

  friend bool operator==(const NamedParameter&, const NamedParameter&) = default;
};
using NamedParameters = std::vector<NamedParameter>;

class ModelAgreement {
 public:
  // Publishes this rank's parameters. Throws the store's errors.
  ModelAgreement(c10d::ProcessGroup& group, const NamedParameters& parameters);

  // "" if the ranks that have published agree. `ranks` are global, by group rank.
  std::string difference(const std::vector<int>& ranks) const;

 private:
  NamedParameters parameters_of(int rank) const;
  std::string key(const std::string& what) const { return prefix_ + what; }

  c10::intrusive_ptr<c10d::Store> store_;
  int size_;
  std::string prefix_, own_hash_;
};

// The first difference in sizes or dtypes; names are not compared. Pure.
std::string first_difference(const std::vector<NamedParameters>& models,
                             const std::vector<int>& ranks);

}  // namespace distrun::internal
