// Random collectives in groups of the backend shm and in groups of Gloo with the same ranks: the
// results must be equal. Reductions are also compared, bit by bit, with LibTorch's operators,
// applied in the order of the ranks; on several hosts, floating ones only within a tolerance.
//
// Environment: DISTRUN_RANDOM_COLLECTIVES is the number of collectives (default 300), DISTRUN_SEED
// the seed (default 0).
#include <cstdlib>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backends/group/shared_tensors.h"
#include "backends/shm/test/reduced_in_order.h"
#include "backends/shm/test/settings.h"
#include "backends/test/multirank_test.h"
#include "distrun/collectives.h"

namespace distrun::shm {
namespace {

using c10d::ReduceOp;

struct GroupPair {
  Group shm, gloo;
};

// What all ranks draw alike.
struct Drawn {
  std::string kind;
  int root = 0;
  at::ScalarType dtype = at::kFloat;
  ReduceOp::RedOpType op = ReduceOp::SUM;
  std::vector<std::int64_t> shape;
  bool async_op = false;
};

std::ostream& operator<<(std::ostream& out, const Drawn& drawn) {
  return out << drawn.kind << " of " << drawn.dtype << " " << at::IntArrayRef(drawn.shape)
             << ", op " << static_cast<int>(drawn.op) << ", root " << drawn.root
             << (drawn.async_op ? ", async" : "");
}

constexpr at::ScalarType kDrawnDtypes[] = {
    at::kBool, at::kByte,     at::kChar,  at::kShort,  at::kInt,          at::kLong,
    at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
constexpr ReduceOp::RedOpType kDrawnOps[] = {ReduceOp::SUM, ReduceOp::AVG, ReduceOp::PRODUCT,
                                             ReduceOp::MIN, ReduceOp::MAX, ReduceOp::BAND,
                                             ReduceOp::BOR, ReduceOp::BXOR};
const char* const kDrawnKinds[] = {"broadcast",
                                   "all_reduce",
                                   "all_reduce_coalesced",
                                   "reduce",
                                   "all_gather",
                                   "all_gather_into_tensor",
                                   "gather",
                                   "scatter",
                                   "reduce_scatter",
                                   "reduce_scatter_tensor",
                                   "all_to_all",
                                   "all_to_all_single",
                                   "barrier"};

bool gloo_reduces(at::ScalarType dtype, ReduceOp::RedOpType op) {
  if (dtype == at::kShort || at::isComplexType(dtype) || dtype == at::kBool) return false;
  return op != ReduceOp::AVG || at::isFloatingType(dtype);
}

class Runs {
 public:
  Runs(std::mt19937 shared, std::mt19937 own, std::vector<GroupPair> groups)
      : shared_(shared), own_(own), groups_(std::move(groups)) {}

  void next() {
    const Drawn drawn = draw();
    const GroupPair& groups = groups_[pick(groups_.size())];
    if (!groups.shm.is_member()) return;
    Drawn here = drawn;
    here.root %= get_world_size(groups.shm);
    run(here, groups);
    if (pending_.size() > own_() % 6) finish_first();
  }

  void finish() {
    while (!pending_.empty()) finish_first();
  }

 private:
  struct Pending {
    Drawn drawn;
    Work work;
    Tensors results, of_gloo, exact;  // Exact ones may be missing.
  };

  std::size_t pick(std::size_t count) { return shared_() % count; }

  Drawn draw() {
    Drawn drawn;
    drawn.kind = kDrawnKinds[pick(std::size(kDrawnKinds))];
    drawn.root = static_cast<int>(pick(64));
    drawn.dtype = kDrawnDtypes[pick(std::size(kDrawnDtypes))];
    do {
      drawn.op = kDrawnOps[pick(std::size(kDrawnOps))];
    } while (!is_reduction_defined(drawn.dtype, drawn.op));
    if (pick(drawn.kind == "all_reduce" ? 3 : 16) == 0) {
      drawn.shape = {static_cast<std::int64_t>(pick(400'000))};
    } else {
      for (std::size_t left = pick(4); left > 0; --left) {
        drawn.shape.push_back(static_cast<std::int64_t>(pick(9)));
      }
    }
    drawn.async_op = pick(2) == 0;
    return drawn;
  }

  // Each rank's own values and strides.
  at::Tensor make(const Drawn& drawn, std::vector<std::int64_t> shape) {
    const bool is_strided = !shape.empty() && own_() % 3 == 0;
    if (is_strided) shape.back() *= 2;
    at::Generator generator = at::detail::createCPUGenerator(own_());
    at::Tensor values = at::randint(-100, 100, shape, generator, at::kDouble) / 8;
    if (drawn.dtype == at::kBool) values = values > 0;
    if (at::isIntegralType(drawn.dtype, false)) values = values * 8;
    values = values.to(drawn.dtype);
    return is_strided ? values.slice(-1, 0, std::nullopt, 2) : values;
  }
  at::Tensor make(const Drawn& drawn) { return make(drawn, drawn.shape); }
  Tensors make(const Drawn& drawn, int count) {
    Tensors all;
    for (int i = 0; i < count; ++i) all.push_back(make(drawn));
    return all;
  }

  static Tensors copies(const Tensors& tensors) {
    Tensors all;
    for (const at::Tensor& each : tensors) all.push_back(each.clone());
    return all;
  }

  static Tensors of_all_ranks(const at::Tensor& mine, const Group& gloo) {
    Tensors all;
    for (int i = 0; i < get_world_size(gloo); ++i) all.push_back(at::empty_like(mine));
    all_gather(all, mine, {.group = gloo});
    return all;
  }

  // `call` runs a collective on some tensors, in a group; the tensors with `results` are compared.
  using Call = std::function<Work(const Tensors&, const CollectiveOptions&)>;

  void add(const Drawn& drawn, const GroupPair& groups, const Tensors& tensors,
           const std::vector<std::size_t>& results, const Call& call, bool gloo_can = true,
           const Tensors& exact = {}) {
    Pending one{drawn, {}, {}, {}, exact};
    const Tensors for_gloo = copies(tensors);
    if (gloo_can) call(for_gloo, {.group = groups.gloo});
    for (const at::Tensor& each : tensors) {
      if (each.nbytes() < 1'000'000 || own_() % 4 == 0) continue;
      internal::share_with_group(each, *groups.shm.process_group());
    }
    one.work = call(tensors, {.group = groups.shm, .async_op = drawn.async_op});
    for (const std::size_t each : results) {
      one.results.push_back(tensors[each]);
      if (gloo_can) one.of_gloo.push_back(for_gloo[each]);
    }
    pending_.push_back(std::move(one));
  }

  void run(const Drawn& drawn, const GroupPair& groups) {
    const int ranks = get_world_size(groups.shm), me = get_rank(groups.shm);
    const bool is_root = me == drawn.root;
    const GroupRank root(drawn.root);
    const ReduceOp op(drawn.op);
    const bool reduces = gloo_reduces(drawn.dtype, drawn.op);
    std::vector<std::int64_t> large = drawn.shape;
    if (large.empty()) large = {1};
    large[0] *= ranks;
    const auto last = [](const Tensors& all) { return Tensors(all.begin() + 1, all.end()); };
    std::vector<std::size_t> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 1);

    if (drawn.kind == "broadcast") {
      add(drawn, groups, {make(drawn)}, {0},
          [=](auto& its, auto& options) { return broadcast(its[0], root, options); });
    } else if (drawn.kind == "all_reduce") {
      const at::Tensor mine = make(drawn);
      add(drawn, groups, {mine}, {0},
          [=](auto& its, auto& options) { return all_reduce(its[0], op, options); }, reduces,
          {reduced_in_order(drawn.op, of_all_ranks(mine, groups.gloo))});
    } else if (drawn.kind == "all_reduce_coalesced") {
      const Tensors mine = {make(drawn), make(drawn, std::vector<std::int64_t>{7})};
      add(drawn, groups, mine, {0, 1},
          [=](auto& its, auto& options) { return all_reduce_coalesced(its, op, options); }, reduces,
          {reduced_in_order(drawn.op, of_all_ranks(mine[0], groups.gloo)),
           reduced_in_order(drawn.op, of_all_ranks(mine[1], groups.gloo))});
    } else if (drawn.kind == "reduce") {
      const at::Tensor mine = make(drawn);
      const at::Tensor sum = reduced_in_order(drawn.op, of_all_ranks(mine, groups.gloo));
      // Gloo leaves something else in the tensors of other ranks.
      const std::vector<std::size_t> results =
          is_root ? std::vector<std::size_t>{0} : std::vector<std::size_t>{};
      add(
          drawn, groups, {mine}, results,
          [=](auto& its, auto& options) { return reduce(its[0], root, op, options); }, reduces,
          is_root ? Tensors{sum} : Tensors());
    } else if (drawn.kind == "all_gather") {
      add(drawn, groups, make(drawn, ranks + 1), all,
          [=](auto& its, auto& options) { return all_gather(last(its), its[0], options); });
    } else if (drawn.kind == "all_gather_into_tensor") {
      std::vector<std::int64_t> small = large;
      small[0] /= ranks;
      add(drawn, groups, {make(drawn, small), make(drawn, large)}, {1},
          [=](auto& its, auto& options) {
            return all_gather_into_tensor(its[1], its[0], options);
          });
    } else if (drawn.kind == "gather") {
      add(drawn, groups, make(drawn, is_root ? ranks + 1 : 1),
          is_root ? all : std::vector<std::size_t>{},
          [=](auto& its, auto& options) { return gather(its[0], last(its), root, options); });
    } else if (drawn.kind == "scatter") {
      add(drawn, groups, make(drawn, is_root ? ranks + 1 : 1), {0},
          [=](auto& its, auto& options) { return scatter(its[0], last(its), root, options); });
    } else if (drawn.kind == "reduce_scatter") {
      const Tensors tensors = make(drawn, ranks + 1);
      Tensors sums;
      for (const at::Tensor& each : last(tensors)) {
        sums.push_back(reduced_in_order(drawn.op, of_all_ranks(each, groups.gloo)));
      }
      add(drawn, groups, tensors, {0},
          [=](auto& its, auto& options) { return reduce_scatter(its[0], last(its), op, options); },
          reduces, {sums[static_cast<std::size_t>(me)]});
    } else if (drawn.kind == "reduce_scatter_tensor") {
      std::vector<std::int64_t> small = large;
      small[0] /= ranks;
      const Tensors tensors = {make(drawn, small), make(drawn, large)};
      const at::Tensor sum = reduced_in_order(drawn.op, of_all_ranks(tensors[1], groups.gloo));
      add(drawn, groups, tensors, {0},
          [=](auto& its, auto& options) {
            return reduce_scatter_tensor(its[0], its[1], op, options);
          },
          reduces, {sum.narrow(0, me * small[0], small[0])});
    } else if (drawn.kind == "all_to_all") {
      std::vector<std::size_t> outputs(static_cast<std::size_t>(ranks));
      std::iota(outputs.begin(), outputs.end(), 0);
      add(drawn, groups, make(drawn, 2 * ranks), outputs, [=](auto& its, auto& options) {
        return all_to_all({its.begin(), its.begin() + ranks}, {its.begin() + ranks, its.end()},
                          options);
      });
    } else if (drawn.kind == "all_to_all_single") {
      // Rank i sends 1 + (i + j) % 3 rows to rank j.
      std::vector<std::int64_t> sent, received;
      for (int peer = 0; peer < ranks; ++peer) {
        sent.push_back(1 + (me + peer) % 3);
        received.push_back(1 + (peer + me) % 3);
      }
      std::vector<std::int64_t> in = large, out = large;
      in[0] = std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
      out[0] = std::accumulate(received.begin(), received.end(), std::int64_t{0});
      add(drawn, groups, {make(drawn, out), make(drawn, in)}, {0}, [=](auto& its, auto& options) {
        return all_to_all_single(its[0], its[1], received, sent, options);
      });
    } else {
      add(drawn, groups, {}, {}, [](auto&, auto& options) { return barrier(options); });
    }
  }

  static void expect_same(const at::Tensor& result, const at::Tensor& expected, bool is_rounded) {
    const bool is_same =
        is_rounded ? at::allclose(result.to(at::kDouble), expected.to(at::kDouble), 0.05, 0.05)
                   : result.equal(expected);
    EXPECT_TRUE(is_same) << result.flatten().slice(0, 0, 20) << "\ninstead of\n"
                         << expected.flatten().slice(0, 0, 20);
  }

  void finish_first() {
    const Pending one = std::move(pending_.front());
    pending_.pop_front();
    SCOPED_TRACE(::testing::PrintToString(one.drawn));
    one.work.wait();
    // Gloo rounds half and bfloat16 in each step.
    const bool is_rounded = !one.exact.empty() && at::isFloatingType(one.drawn.dtype);
    for (std::size_t i = 0; i < one.of_gloo.size(); ++i) {
      expect_same(one.results[i], one.of_gloo[i], is_rounded);
    }
    // On several hosts, each host adds first.
    const bool is_reordered = std::getenv("DISTRUN_MULTIRANK_HOSTS") != nullptr && is_rounded;
    for (std::size_t i = 0; i < one.exact.size() && i < one.results.size(); ++i) {
      expect_same(one.results[i], one.exact[i], is_reordered);
    }
  }

  std::mt19937 shared_, own_;
  const std::vector<GroupPair> groups_;
  std::deque<Pending> pending_;
};

class ShmDifferentialMultirankTest : public MultirankTest {};

TEST_F(ShmDifferentialMultirankTest, RandomCollectivesGiveTheResultsOfGloo) {
  const int count = test::number_in("DISTRUN_RANDOM_COLLECTIVES", 300);
  const auto seed = static_cast<unsigned>(test::number_in("DISTRUN_SEED", 0));
  const auto both = [](const std::vector<int>& ranks) {
    return GroupPair{new_group(ranks, {.backend = "shm"}), new_group(ranks, {.backend = "gloo"})};
  };
  std::vector<int> all(static_cast<std::size_t>(get_world_size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<GroupPair> groups = {both(all), both(all)};
  if (get_world_size() > 2) groups.push_back(both({get_world_size() - 1, 0}));
  Runs runs(std::mt19937(seed), std::mt19937(seed * 64 + static_cast<unsigned>(get_rank()) + 1),
            groups);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", collective " + std::to_string(i));
    runs.next();
  }
  runs.finish();
}

}  // namespace
}  // namespace distrun::shm
