// broadcast_bytes() and its like: lengths first, then the bytes, each as tensors.
#include <algorithm>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "backends/collectives.h"
#include "backends/group_state.h"
#include "backends/process_group.h"
#include "backends/run_collective.h"

namespace distrun {

namespace {

// With zeros after it, up to `size`.
at::Tensor to_tensor(const std::string& bytes, std::int64_t size) {
  at::Tensor tensor = at::zeros({size}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<std::uint8_t>());
  return tensor;
}

std::string to_bytes(const at::Tensor& tensor, std::int64_t size) {
  const auto* begin = tensor.const_data_ptr<std::uint8_t>();
  return std::string(begin, begin + size);
}

std::int64_t length_of(const std::string& bytes) { return static_cast<std::int64_t>(bytes.size()); }

Tensors tensors_for(int ranks, const at::Tensor& like) {
  Tensors all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(at::empty(like.sizes(), like.options()));
  return all;
}

std::vector<std::int64_t> all_lengths(const std::string& bytes, const Group& group) {
  const at::Tensor own = at::full({1}, length_of(bytes), at::kLong);
  const Tensors all = tensors_for(get_world_size(group), own);
  all_gather(all, own, {.group = group});
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& one : all) lengths.push_back(one.item<std::int64_t>());
  return lengths;
}

std::vector<std::string> to_list(const Tensors& tensors, const std::vector<std::int64_t>& lengths) {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    list.push_back(to_bytes(tensors[i], lengths[i]));
  }
  return list;
}

}  // namespace

std::string broadcast_bytes(const std::string& bytes, AnyRank src, const Group& group) {
  if (!internal::is_for_this_rank("broadcast_bytes", group)) return {};
  const at::Tensor length = at::full({1}, length_of(bytes), at::kLong);
  broadcast(length, src, {.group = group});
  const auto size = length.item<std::int64_t>();
  at::Tensor tensor =
      size == length_of(bytes) ? to_tensor(bytes, size) : at::empty({size}, at::kByte);
  broadcast(tensor, src, {.group = group});
  return to_bytes(tensor, size);
}

std::vector<std::string> all_gather_bytes(const std::string& bytes, const Group& group) {
  if (!internal::is_for_this_rank("all_gather_bytes", group)) return {};
  const auto lengths = all_lengths(bytes, group);
  const at::Tensor own = to_tensor(bytes, *std::max_element(lengths.begin(), lengths.end()));
  const Tensors all = tensors_for(get_world_size(group), own);
  all_gather(all, own, {.group = group});
  return to_list(all, lengths);
}

std::vector<std::string> gather_bytes(const std::string& bytes, AnyRank dst, const Group& group) {
  if (!internal::is_for_this_rank("gather_bytes", group)) return {};
  const int root = internal::group_rank_of("gather_bytes", group, dst);
  const auto lengths = all_lengths(bytes, group);
  const at::Tensor own = to_tensor(bytes, *std::max_element(lengths.begin(), lengths.end()));
  Tensors all;
  if (get_rank(group) == root) all = tensors_for(get_world_size(group), own);
  gather(own, all, GroupRank(root), {.group = group});
  return to_list(all, lengths);
}

}  // namespace distrun
