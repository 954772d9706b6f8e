// DeviceMesh arranges ranks in a grid, whose dimensions are kinds of parallelism.
//
//     // Ranks 0 to 7 in two rows of four: {0, 1, 2, 3}, {4, 5, 6, 7}.
//     const DeviceMesh mesh = init_device_mesh(at::kCPU, {2, 4}, {"dp", "tp"});
//     mesh["tp"].get_group();       // On rank 6: the group of ranks 4, 5, 6, 7.
//     mesh["dp"].get_group();       // On rank 6: the group of ranks 2, 6.
//     mesh.get_local_rank("tp");    // On rank 6: 2.
//
// Every rank of the run must construct the same meshes in the same order, even a rank that is in
// none of them.  Copies refer to the same mesh and groups.
//
// Throws: functions that need the groups of this rank throw c10::Error on a rank that is not in the
// mesh.
// Thread safety: as Group.
// PyTorch source: torch/distributed/device_mesh.py.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include "distrun/group.h"

namespace distrun {

class DeviceMesh {
 public:
  // Arranges the global ranks in `ranks`, an integer tensor with at least one dimension.  `names`
  // has a name for each dimension, or is empty.
  //
  // Blocks: until the members of this rank's groups have called it.
  // Throws: c10::ValueError if a rank is out of range or occurs twice, if `names` has another
  // length, or if a name is empty or occurs twice.
  // Cost: as new_group(), for each dimension that does not have all ranks of the run.
  DeviceMesh(c10::DeviceType device_type, const at::Tensor& ranks,
             std::vector<std::string> names = {});

  // Returns the part of the mesh with only these dimensions that contains this rank.  Does not
  // communicate.
  //
  // Throws: c10::ValueError if the mesh has no such name, or if the names are not in the order of
  // the mesh.
  DeviceMesh operator[](std::string_view name) const;
  DeviceMesh operator[](std::initializer_list<std::string_view> names) const;

  // Returns the group of this rank along a dimension.  A mesh with one dimension needs no name.
  //
  // Throws: c10::ValueError if the mesh has no such dimension, or has several and no name is given.
  const Group& get_group(std::optional<std::string_view> name = std::nullopt) const;
  const Group& get_group(std::size_t dimension) const;

  // Returns the place of this rank along a dimension, from 0.
  //
  // Throws: as get_group().
  int get_local_rank(std::optional<std::string_view> name = std::nullopt) const;
  // Returns the place of this rank along each dimension; std::nullopt if it is not in the mesh.
  std::optional<std::vector<int>> get_coordinate() const;

  // Returns the number of ranks.
  std::int64_t size() const { return ranks_.numel(); }
  // Returns the number of ranks along a dimension.
  std::int64_t size(std::size_t dimension) const;
  // Returns the number of ranks along each dimension.
  std::vector<std::int64_t> shape() const { return ranks_.sizes().vec(); }
  // Returns the number of dimensions.
  std::size_t ndim() const { return static_cast<std::size_t>(ranks_.dim()); }
  // Returns the names of the dimensions; empty if they have none.
  const std::vector<std::string>& mesh_dim_names() const { return names_; }
  // Returns the global ranks: an int64 tensor on the CPU.
  const at::Tensor& mesh() const { return ranks_; }
  // Returns the type of the devices that the ranks use.
  c10::DeviceType device_type() const { return device_type_; }

 private:
  DeviceMesh() = default;
  std::size_t dimension_of(std::optional<std::string_view> name) const;

  c10::DeviceType device_type_ = c10::kCPU;
  at::Tensor ranks_;
  std::vector<std::string> names_;
  // This rank's, by dimension; empty if it is not in the mesh.
  std::vector<Group> groups_;
};

// Creates a mesh of all ranks of the run, in ascending order.  Neighbouring ranks lie along the
// last dimension: with shape {2, 4}, these are ranks 0 to 3, and ranks 4 to 7.
//
// Throws: c10::ValueError if the numbers in `shape` do not multiply to the number of ranks.
// Also throws the exceptions of DeviceMesh's constructor.
DeviceMesh init_device_mesh(c10::DeviceType device_type, const std::vector<std::int64_t>& shape,
                            std::vector<std::string> names = {});

}  // namespace distrun
