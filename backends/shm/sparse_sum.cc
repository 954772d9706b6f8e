#include "backends/shm/sparse_sum.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>

#include "backends/shm/host/host_error.h"

namespace distrun::shm {

namespace {

// A description of a rank's tensor: its dtype, numbers of dimensions and of elements, and a digest
// of its sizes, by which ranks compare them.
struct Shape {
  std::int64_t type = 0;
  std::int64_t sparse_dimensions = 0;
  std::int64_t dense_dimensions = 0;
  std::int64_t sizes = 0;
  std::int64_t elements = 0;

  bool fits(const Shape& other) const {
    return type == other.type && sparse_dimensions == other.sparse_dimensions &&
           dense_dimensions == other.dense_dimensions && sizes == other.sizes;
  }
};

Shape shape_of(const at::Tensor& tensor) {
  std::uint64_t digest = 0;
  for (const std::int64_t size : tensor.sizes()) {
    digest = (digest + static_cast<std::uint64_t>(size) + 1) * 0x9e3779b97f4a7c15;
  }
  return {.type = static_cast<std::int64_t>(tensor.scalar_type()),
          .sparse_dimensions = tensor.sparse_dim(),
          .dense_dimensions = tensor.dense_dim(),
          .sizes = static_cast<std::int64_t>(digest),
          .elements = tensor._nnz()};
}

std::vector<Shape> shapes_of_all(const Shape& mine, Collectives& group, Watch& watch) {
  std::vector<Shape> all(static_cast<std::size_t>(group.ranks()));
  std::vector<std::byte*> outputs;
  outputs.reserve(all.size());
  for (Shape& each : all) outputs.push_back(reinterpret_cast<std::byte*>(&each));
  group.all_gather(reinterpret_cast<const std::byte*>(&mine), outputs, sizeof(mine), watch);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].fits(mine)) continue;
    throw HostError(HostError::Kind::kMismatch, static_cast<int>(rank),
                    "all_reduce: the ranks' sparse tensors differ in sizes, dtype or number of "
                    "dense dimensions");
  }
  return all;
}

// A rank's tensor, which the others receive into an empty one.
at::Tensor of_rank(int rank, const at::Tensor& mine, at::IntArrayRef sizes, Collectives& group,
                   Watch& watch) {
  at::Tensor its = rank == group.rank() ? mine : at::empty(sizes, mine.options());
  group.broadcast(static_cast<std::byte*>(its.data_ptr()), its.nbytes(), rank, watch);
  return its;
}

}  // namespace

void sum_sparse(const at::Tensor& tensor, Collectives& group, Watch& watch) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor my_indices = mine._indices().contiguous();
  const at::Tensor my_values = mine._values().contiguous();
  const auto shapes = shapes_of_all(shape_of(mine), group, watch);
  std::vector<at::Tensor> indices, values;
  for (int rank = 0; rank < group.ranks(); ++rank) {
    const std::int64_t elements = shapes[static_cast<std::size_t>(rank)].elements;
    indices.push_back(of_rank(rank, my_indices, {my_indices.size(0), elements}, group, watch));
    std::vector<std::int64_t> sizes = my_values.sizes().vec();
    sizes[0] = elements;
    values.push_back(of_rank(rank, my_values, sizes, group, watch));
  }
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(indices, 1), at::cat(values), tensor.sizes(), tensor.options())
          .coalesce();
  tensor.copy_(sum);
}

}  // namespace distrun::shm
