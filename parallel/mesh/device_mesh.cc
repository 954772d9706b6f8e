#include "distrun/device_mesh.h"

#include <algorithm>
#include <set>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>

#include "distrun/process_group.h"

namespace distrun {

namespace {

void check_names(const std::vector<std::string>& names, std::int64_t dimensions) {
  if (names.empty()) return;
  TORCH_CHECK_VALUE(static_cast<std::int64_t>(names.size()) == dimensions, "DeviceMesh: it has ",
                    names.size(), " names, and the number of dimensions is ", dimensions);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    TORCH_CHECK_VALUE(!name.empty() && seen.insert(name).second, "DeviceMesh: the name '", name,
                      "' is empty or occurs twice");
  }
}

at::Tensor checked_ranks(const at::Tensor& ranks) {
  TORCH_CHECK_VALUE(ranks.dim() > 0 && ranks.numel() > 0 &&
                        at::isIntegralType(ranks.scalar_type(), /*includeBool=*/false),
                    "DeviceMesh: the ranks have dtype ", ranks.scalar_type(), " and sizes ",
                    ranks.sizes(), "; expected integers, at least one, in at least one dimension");
  at::Tensor all = ranks.to(at::kCPU, at::kLong).contiguous();
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    const std::int64_t rank = all.const_data_ptr<std::int64_t>()[i];
    TORCH_CHECK_VALUE(0 <= rank && rank < get_world_size(), "DeviceMesh: rank ", rank,
                      " is out of range; expected 0 to ", get_world_size() - 1);
    TORCH_CHECK_VALUE(seen.insert(rank).second, "DeviceMesh: rank ", rank, " occurs twice");
  }
  return all;
}

// The ranks along a dimension, for each combination of the other dimensions.
std::vector<std::vector<int>> lines_along(const at::Tensor& ranks, std::int64_t dimension) {
  const at::Tensor rows = ranks.movedim(dimension, -1).reshape({-1, ranks.size(dimension)});
  std::vector<std::vector<int>> lines;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    lines.emplace_back();
    for (std::int64_t i = 0; i < rows.size(1); ++i) {
      lines.back().push_back(rows[row][i].item<int>());
    }
  }
  return lines;
}

// This rank's group along a dimension; the default group if it has all ranks.
std::optional<Group> group_along(const at::Tensor& ranks, std::int64_t dimension) {
  const auto lines = lines_along(ranks, dimension);
  const auto all = get_process_group_ranks();
  if (lines.size() == 1 && lines.front() == all) return Group();
  return new_subgroups_by_enumeration(lines).own;
}

}  // namespace

DeviceMesh::DeviceMesh(c10::DeviceType device_type, const at::Tensor& ranks,
                       std::vector<std::string> names)
    : device_type_(device_type), ranks_(checked_ranks(ranks)), names_(std::move(names)) {
  check_names(names_, ranks_.dim());
  for (std::int64_t i = 0; i < ranks_.dim(); ++i) {
    if (auto group = group_along(ranks_, i)) groups_.push_back(std::move(*group));
  }
}

std::size_t DeviceMesh::dimension_of(std::optional<std::string_view> name) const {
  if (!name) {
    TORCH_CHECK_VALUE(ndim() == 1, "DeviceMesh: it has ", ndim(), " dimensions; name one of them");
    return 0;
  }
  const auto found = std::find(names_.begin(), names_.end(), *name);
  TORCH_CHECK_VALUE(found != names_.end(), "DeviceMesh: it has no dimension '", *name,
                    "'; it has: ", c10::Join(", ", names_));
  return static_cast<std::size_t>(found - names_.begin());
}

DeviceMesh DeviceMesh::operator[](std::string_view name) const {
  return (*this)[std::initializer_list<std::string_view>{name}];
}

DeviceMesh DeviceMesh::operator[](std::initializer_list<std::string_view> names) const {
  DeviceMesh part;
  part.device_type_ = device_type_;
  part.ranks_ = ranks_;
  const auto place = get_coordinate();
  TORCH_CHECK(place, "DeviceMesh: rank ", get_rank(), " is not in the mesh");
  std::vector<bool> stays(ndim(), false);
  std::size_t next = 0;
  for (const std::string_view name : names) {
    const std::size_t dimension = dimension_of(name);
    TORCH_CHECK_VALUE(dimension >= next, "DeviceMesh: dimension '", name,
                      "' is not in the order of the mesh: ", c10::Join(", ", names_));
    next = dimension + 1;
    stays[dimension] = true;
    part.names_.emplace_back(name);
    part.groups_.push_back(groups_[dimension]);
  }
  for (std::size_t i = ndim(); i-- > 0;) {
    if (!stays[i]) part.ranks_ = part.ranks_.select(static_cast<std::int64_t>(i), (*place)[i]);
  }
  return part;
}

const Group& DeviceMesh::get_group(std::optional<std::string_view> name) const {
  return get_group(dimension_of(name));
}

const Group& DeviceMesh::get_group(std::size_t dimension) const {
  TORCH_CHECK_VALUE(dimension < ndim(), "DeviceMesh: it has no dimension ", dimension);
  TORCH_CHECK(!groups_.empty(), "DeviceMesh: rank ", get_rank(), " is not in the mesh");
  return groups_[dimension];
}

int DeviceMesh::get_local_rank(std::optional<std::string_view> name) const {
  const std::size_t dimension = dimension_of(name);
  const auto place = get_coordinate();
  TORCH_CHECK(place, "DeviceMesh: rank ", get_rank(), " is not in the mesh");
  return (*place)[dimension];
}

std::optional<std::vector<int>> DeviceMesh::get_coordinate() const {
  const at::Tensor found = (ranks_ == get_rank()).nonzero();
  if (found.size(0) == 0) return std::nullopt;
  std::vector<int> place;
  for (std::int64_t i = 0; i < found.size(1); ++i) place.push_back(found[0][i].item<int>());
  return place;
}

std::int64_t DeviceMesh::size(std::size_t dimension) const {
  TORCH_CHECK_VALUE(dimension < ndim(), "DeviceMesh: it has no dimension ", dimension);
  return ranks_.size(static_cast<std::int64_t>(dimension));
}

DeviceMesh init_device_mesh(c10::DeviceType device_type, const std::vector<std::int64_t>& shape,
                            std::vector<std::string> names) {
  std::int64_t ranks = 1;
  bool is_positive = !shape.empty();
  for (const std::int64_t one : shape) {
    ranks *= one;
    is_positive = is_positive && one > 0;
  }
  TORCH_CHECK_VALUE(is_positive && ranks == get_world_size(), "init_device_mesh: shape ",
                    at::IntArrayRef(shape), " has ", ranks, " ranks, and the run ",
                    get_world_size());
  return DeviceMesh(device_type, at::arange(ranks, at::kLong).view(shape), std::move(names));
}

}  // namespace distrun
