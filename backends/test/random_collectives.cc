#include "backends/test/random_collectives.h"

#include <ATen/ops/ones.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun::testing {

namespace {

struct Drawn {
  CollectiveOptions options;
  int root;
  std::int64_t size;
  at::ScalarType dtype;

  int ranks() const { return get_world_size(options.group); }
  bool is_root() const { return get_rank(options.group) == root; }
  at::Tensor one() const { return at::ones({size}, dtype); }
  // The elements of all ranks, in one tensor or in a list.
  at::Tensor large() const { return at::ones({ranks() * size}, dtype); }
  Tensors list() const {
    Tensors all;
    for (int rank = 0; rank < ranks(); ++rank) all.push_back(one());
    return all;
  }
  Tensors roots_list() const { return is_root() ? list() : Tensors(); }
};

constexpr auto kSum = c10d::ReduceOp::SUM;

constexpr Work (*kKinds[])(const Drawn&) = {
    [](const Drawn& its) { return broadcast(its.one(), GroupRank(its.root), its.options); },
    [](const Drawn& its) { return all_reduce(its.one(), kSum, its.options); },
    [](const Drawn& its) {
      return all_reduce_coalesced({its.one(), its.large()}, kSum, its.options);
    },
    [](const Drawn& its) { return reduce(its.one(), GroupRank(its.root), kSum, its.options); },
    [](const Drawn& its) { return all_gather(its.list(), its.one(), its.options); },
    [](const Drawn& its) { return all_gather_into_tensor(its.large(), its.one(), its.options); },
    [](const Drawn& its) {
      return all_gather_coalesced({its.list(), its.list()}, {its.one(), its.one()}, its.options);
    },
    [](const Drawn& its) {
      return gather(its.one(), its.roots_list(), GroupRank(its.root), its.options);
    },
    [](const Drawn& its) {
      return scatter(its.one(), its.roots_list(), GroupRank(its.root), its.options);
    },
    [](const Drawn& its) { return reduce_scatter(its.one(), its.list(), kSum, its.options); },
    [](const Drawn& its) {
      return reduce_scatter_tensor(its.one(), its.large(), kSum, its.options);
    },
    [](const Drawn& its) { return all_to_all(its.list(), its.list(), its.options); },
    [](const Drawn& its) {
      return all_to_all_single(its.large(), its.large(), {}, {}, its.options);
    },
    [](const Drawn& its) { return barrier(its.options); },
    [](const Drawn& its) {
      all_gather_bytes("bytes", its.options.group);
      return Work();
    },
    [](const Drawn& its) {
      monitored_barrier({.group = its.options.group});
      return Work();
    },
};

constexpr std::int64_t kSizes[] = {1, 1000, 300'000};  // The last exceeds socket buffers.
constexpr at::ScalarType kDtypes[] = {at::kByte, at::kInt,   at::kLong,
                                      at::kHalf, at::kFloat, at::kDouble};
constexpr std::size_t kUnderWay = 4;

}  // namespace

void RandomCollectives::begin_next(bool wait) {
  // Every rank draws all values, even unused ones, so that the sequences stay equal.
  const auto kind = draw(std::size(kKinds));
  const Group& group = groups_[draw(static_cast<unsigned>(groups_.size()))];
  const bool async_op = draw(2) == 0 || !wait;
  const auto root = draw(static_cast<unsigned>(get_process_group_ranks(group).size()));
  const auto size = kSizes[draw(std::size(kSizes))];
  const auto dtype = kDtypes[draw(std::size(kDtypes))];
  if (!group.is_member()) return;
  const Drawn drawn{{.group = group, .async_op = async_op}, static_cast<int>(root), size, dtype};
  if (Work work = kKinds[kind](drawn)) under_way_.push_back(std::move(work));
  if (wait && under_way_.size() > kUnderWay) {
    under_way_.front().wait();
    under_way_.pop_front();
  }
}

void RandomCollectives::wait_for_all() {
  for (; !under_way_.empty(); under_way_.pop_front()) under_way_.front().wait();
}

}  // namespace distrun::testing
