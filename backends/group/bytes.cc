// Functions send the lengths first, then the bytes.
#include <algorithm>
#include <cstring>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/group_state.h"
#include "backends/group/run_collective.h"
#include "distrun/collectives.h"
#include "distrun/point_to_point.h"

namespace distrun {

namespace {

using internal::CallSite;
using internal::group_rank_of;
using internal::has_cpu_backend;
using internal::is_for_this_rank;
using internal::peer_of;
using internal::run_collective;

// The CPU if the group has a backend for it, else the current device of the group's first backend.
c10::Device device_of(const CallSite& site) {
  if (has_cpu_backend(*site.group.process_group())) return at::kCPU;
  return site.group->getDeviceTypes().at(0).type();
}

// The first `size` bytes, padded with zeros.
at::Tensor to_tensor(const CallSite& site, const std::string& bytes, std::int64_t size) {
  at::Tensor tensor = at::zeros({size}, at::kByte);
  const auto count = std::min(bytes.size(), static_cast<std::size_t>(size));
  std::copy_n(bytes.begin(), count, tensor.data_ptr<std::uint8_t>());
  return tensor.to(device_of(site));
}

std::string to_bytes(const at::Tensor& tensor, std::int64_t size) {
  const at::Tensor on_cpu = tensor.cpu();
  const auto* begin = on_cpu.const_data_ptr<std::uint8_t>();
  return std::string(begin, begin + size);
}

at::Tensor length_of(const CallSite& site, const std::string& bytes) {
  const auto length = static_cast<std::int64_t>(bytes.size());
  return at::full({1}, length, at::kLong).to(device_of(site));
}

Tensors tensors_for(int ranks, const at::Tensor& like) {
  Tensors all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(at::empty(like.sizes(), like.options()));
  return all;
}

// Unchecked, because the tensors are created here. Errors name the caller's function.
void broadcast_of(const CallSite& site, const at::Tensor& tensor, int root) {
  Tensors tensors = {tensor};
  run_collective(site, /*async_op=*/false,
                 [&] { return site.group->broadcast(tensors, {.rootRank = root}); });
}

Tensors all_gather_of(const CallSite& site, const at::Tensor& tensor) {
  std::vector<Tensors> outputs = {tensors_for(site.size(), tensor)};
  Tensors inputs = {tensor};
  run_collective(site, /*async_op=*/false, [&] { return site.group->allgather(outputs, inputs); });
  return outputs[0];
}

Tensors gather_of(const CallSite& site, const at::Tensor& tensor, int root) {
  std::vector<Tensors> outputs;
  if (site.rank() == root) outputs.push_back(tensors_for(site.size(), tensor));
  Tensors inputs = {tensor};
  run_collective(site, /*async_op=*/false,
                 [&] { return site.group->gather(outputs, inputs, {.rootRank = root}); });
  return outputs.empty() ? Tensors() : outputs[0];
}

at::Tensor scatter_of(const CallSite& site, const Tensors& inputs, const at::Tensor& like,
                      int root) {
  Tensors outputs = {at::zeros_like(like)};
  std::vector<Tensors> parts;
  if (site.rank() == root) parts.push_back(inputs);
  run_collective(site, /*async_op=*/false,
                 [&] { return site.group->scatter(outputs, parts, {.rootRank = root}); });
  return outputs[0];
}

void send_to(const CallSite& site, const at::Tensor& tensor, int tag) {
  Tensors tensors = {tensor};
  run_collective(site, /*async_op=*/false,
                 [&] { return site.group->send(tensors, site.peer.value(), tag); });
}

// Receives from any rank if the site has no peer. Returns the global rank of the sender.
int receive_into(const CallSite& site, const at::Tensor& tensor, int tag) {
  Tensors tensors = {tensor};
  const Work work = run_collective(site, /*async_op=*/true, [&] {
    return site.peer ? site.group->recv(tensors, *site.peer, tag)
                     : site.group->recvAnysource(tensors, tag);
  });
  work.wait();
  return site.peer ? get_global_rank(site.group, *site.peer) : work.source_rank();
}

std::vector<std::int64_t> all_lengths(const CallSite& site, const std::string& bytes) {
  const Tensors all = all_gather_of(site, length_of(site, bytes));
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& one : all) lengths.push_back(one.item<std::int64_t>());
  return lengths;
}

std::int64_t longest(const std::vector<std::int64_t>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
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
  const CallSite site{"broadcast_bytes", group};
  if (!is_for_this_rank(site.function, group)) return {};
  const int root = group_rank_of(site.function, group, src);
  const at::Tensor length = length_of(site, bytes);
  broadcast_of(site, length, root);
  const auto size = length.item<std::int64_t>();
  const at::Tensor tensor = to_tensor(site, bytes, size);  // "fake" does not change it.
  broadcast_of(site, tensor, root);
  return to_bytes(tensor, size);
}

std::vector<std::string> all_gather_bytes(const std::string& bytes, const Group& group) {
  const CallSite site{"all_gather_bytes", group};
  if (!is_for_this_rank(site.function, group)) return {};
  const auto lengths = all_lengths(site, bytes);
  return to_list(all_gather_of(site, to_tensor(site, bytes, longest(lengths))), lengths);
}

std::vector<std::string> gather_bytes(const std::string& bytes, AnyRank dst, const Group& group) {
  const CallSite site{"gather_bytes", group};
  if (!is_for_this_rank(site.function, group)) return {};
  const int root = group_rank_of(site.function, group, dst);
  const auto lengths = all_lengths(site, bytes);
  return to_list(gather_of(site, to_tensor(site, bytes, longest(lengths)), root), lengths);
}

std::string scatter_bytes(const std::vector<std::string>& bytes, AnyRank src, const Group& group) {
  const CallSite site{"scatter_bytes", group};
  if (!is_for_this_rank(site.function, group)) return {};
  const int root = group_rank_of(site.function, group, src);
  if (site.rank() == root) {
    site.check(bytes.size() == static_cast<std::size_t>(site.size()), "bytes has ", bytes.size(),
               " elements; expected ", site.size(), ", one for each rank of ",
               internal::Described{group});
  } else {
    site.check(bytes.empty(), "bytes has ", bytes.size(),
               " elements; expected none: only group rank ", root, ", the root, passes bytes");
  }
  // Each rank gets the length of its bytes, and that of the padded ones.
  std::int64_t padded = 0;
  for (const std::string& one : bytes) {
    padded = std::max(padded, static_cast<std::int64_t>(one.size()));
  }
  Tensors lengths, tensors;
  lengths.reserve(bytes.size());
  for (const std::string& one : bytes) {
    lengths.push_back(
        at::cat({length_of(site, one), at::full({1}, padded, at::kLong).to(device_of(site))}));
  }
  const at::Tensor own = scatter_of(site, lengths, length_of(site, "").expand({2}), root).cpu();
  tensors.reserve(bytes.size());
  for (const std::string& one : bytes) tensors.push_back(to_tensor(site, one, padded));
  const auto size = own[1].item<std::int64_t>();
  const at::Tensor part = scatter_of(site, tensors, to_tensor(site, "", size), root);
  return to_bytes(part, own[0].item<std::int64_t>());
}

void send_bytes(const std::string& bytes, AnyRank dst, const PointToPointOptions& options) {
  CallSite site{"send_bytes", options.group};
  if (!is_for_this_rank(site.function, site.group)) return;
  check_tag(site, options.tag);
  site.peer = peer_of(site, dst);
  send_to(site, length_of(site, bytes), options.tag);
  if (!bytes.empty()) {
    send_to(site, to_tensor(site, bytes, static_cast<std::int64_t>(bytes.size())), options.tag);
  }
}

int recv_bytes(std::string& bytes, std::optional<AnyRank> src, const PointToPointOptions& options) {
  CallSite site{"recv_bytes", options.group};
  if (!is_for_this_rank(site.function, site.group)) return -1;
  check_tag(site, options.tag);
  check_has_peer(site);
  if (src) site.peer = peer_of(site, *src);
  const at::Tensor length = length_of(site, "");
  const int sender = receive_into(site, length, options.tag);
  site.peer = group_rank_of(site.function, site.group, sender);
  const auto size = length.item<std::int64_t>();
  const at::Tensor tensor = to_tensor(site, "", size);
  if (size > 0) receive_into(site, tensor, options.tag);
  bytes = to_bytes(tensor, size);
  return sender;
}

}  // namespace distrun
