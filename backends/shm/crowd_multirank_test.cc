// Random collectives and messages in random groups, for runs with more ranks than CPUs. Each rank
// computes the results that it expects, so nothing but the backend shm is measured.
//
// Environment: DISTRUN_RANDOM_COLLECTIVES is the number of steps (default 200), DISTRUN_SEED the
// seed (default 0).
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backends/shm/test/settings.h"
#include "backends/test/multirank_test.h"
#include "distrun/collectives.h"
#include "distrun/point_to_point.h"

namespace distrun::shm {
namespace {

class ShmCrowdMultirankTest : public MultirankTest {
 protected:
  struct Some {
    Group group;
    int ranks = 0;
    int me = 0;
  };
  // A step under way: its works, and a check of the results.
  struct Pending {
    std::string name;
    std::vector<Work> works;
    std::function<bool()> is_right;
  };

  // The same on all ranks, which all draw the same numbers.
  std::size_t pick(std::size_t count) { return shared_() % count; }

  Some random_group() {
    std::vector<int> ranks(static_cast<std::size_t>(get_world_size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (std::size_t i = ranks.size() - 1; i > 0; --i) std::swap(ranks[i], ranks[pick(i + 1)]);
    ranks.resize(2 + pick(ranks.size() - 1));
    return group_of(ranks);
  }
  static Some group_of(const std::vector<int>& ranks) {
    Some some{new_group(ranks, {.backend = "shm"}), static_cast<int>(ranks.size()), -1};
    if (some.group.is_member()) some.me = get_rank(some.group);
    return some;
  }

  // The input of a rank for a step.
  at::Tensor input(int step, int rank, std::int64_t count) const {
    return at::arange(count, at::kLong) % 97 + (step % 31) * 1000 + rank * 100'000;
  }
  // With gaps between the elements, on some ranks.
  at::Tensor with_strides(const at::Tensor& values) {
    if (own_() % 3 != 0) return values;
    const at::Tensor wide = at::zeros({values.numel(), 2}, values.options());
    wide.select(1, 0).copy_(values);
    return wide.select(1, 0);
  }

  void next(int step) {
    const Some& some = groups_[pick(groups_.size())];
    const std::size_t kind = pick(6), root = pick(64), shift = pick(64);
    const auto count = static_cast<std::int64_t>(pick(12) == 0 ? pick(70'000) : pick(40));
    const bool async_op = pick(2) == 0;
    if (!some.group.is_member()) return;
    const int ranks = some.ranks, me = some.me;
    const CollectiveOptions options{.group = some.group, .async_op = async_op};
    const auto root_rank = static_cast<int>(root) % ranks;
    Pending one{"step " + std::to_string(step) + ", kind " + std::to_string(kind) + ", " +
                    std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements",
                {},
                {}};
    if (kind == 0) {
      const at::Tensor mine = with_strides(input(step, me, count));
      one.works.push_back(all_reduce(mine, ReduceOp::SUM, options));
      one.is_right = [=, this] {
        at::Tensor sum = at::zeros({count}, at::kLong);
        for (int rank = 0; rank < ranks; ++rank) sum += input(step, rank, count);
        return mine.equal(sum);
      };
    } else if (kind == 1) {
      const at::Tensor mine = with_strides(input(step, me, count));
      one.works.push_back(broadcast(mine, GroupRank(root_rank), options));
      one.is_right = [=, this] { return mine.equal(input(step, root_rank, count)); };
    } else if (kind == 2) {
      Tensors all;
      for (int i = 0; i < ranks; ++i) all.push_back(with_strides(at::zeros({count}, at::kLong)));
      one.works.push_back(all_gather(all, input(step, me, count), options));
      one.is_right = [=, this] {
        for (int i = 0; i < ranks; ++i) {
          if (!all[static_cast<std::size_t>(i)].equal(input(step, i, count))) return false;
        }
        return true;
      };
    } else if (kind == 3) {
      Tensors in, out;
      for (int i = 0; i < ranks; ++i) {
        in.push_back(with_strides(input(step + i, me, count)));
        out.push_back(with_strides(at::zeros({count}, at::kLong)));
      }
      one.works.push_back(all_to_all(out, in, options));
      one.is_right = [=, this] {
        for (int i = 0; i < ranks; ++i) {
          if (!out[static_cast<std::size_t>(i)].equal(input(step + me, i, count))) return false;
        }
        return true;
      };
    } else if (kind == 4) {
      one.works.push_back(barrier(options));
    } else {
      // Each rank sends to one, and receives from one or from any: no other message has the tag.
      const int by = 1 + static_cast<int>(shift) % (ranks - 1);
      const int to = (me + by) % ranks, from = (me + ranks - by) % ranks;
      const PointToPointOptions message{.group = some.group, .tag = step};
      std::optional<AnyRank> source = GroupRank(from);
      if (own_() % 3 == 0) source.reset();
      const at::Tensor mine = at::zeros({count}, at::kLong);
      one.works.push_back(isend(input(step, me, count), GroupRank(to), message));
      one.works.push_back(irecv(mine, source, message));
      one.is_right = [=, this] { return mine.equal(input(step, from, count)); };
    }
    pending_.push_back(std::move(one));
    while (pending_.size() > own_() % 6) finish_first();
  }

  void finish_first() {
    Pending one = std::move(pending_.front());
    pending_.pop_front();
    SCOPED_TRACE(one.name);
    for (Work& each : one.works) each.wait();
    EXPECT_TRUE(!one.is_right || one.is_right());
  }

  std::mt19937 shared_, own_;
  std::vector<Some> groups_;
  std::deque<Pending> pending_;
};

TEST_F(ShmCrowdMultirankTest, RandomCollectivesAndMessagesInRandomGroupsGiveTheirResults) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const int count = test::number_in("DISTRUN_RANDOM_COLLECTIVES", 200);
  const auto seed = static_cast<unsigned>(test::number_in("DISTRUN_SEED", 0));
  shared_.seed(seed);
  own_.seed(seed * 64 + static_cast<unsigned>(get_rank()) + 1);
  std::vector<int> all(static_cast<std::size_t>(get_world_size()));
  std::iota(all.begin(), all.end(), 0);
  groups_.push_back(group_of(all));
  for (int i = 0; i < 4; ++i) groups_.push_back(random_group());
  for (int step = 0; step < count && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    next(step);
  }
  while (!pending_.empty()) finish_first();
}

}  // namespace
}  // namespace distrun::shm
