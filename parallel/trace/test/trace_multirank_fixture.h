#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include "backends/test/multirank_test.h"
#include "distrun/trace.h"

namespace distrun {

class TraceMultirankTest : public MultirankTest {
 protected:
  using Function = std::function<Tensors(const Tensors&)>;

  static int size() { return get_world_size(); }
  static int last() { return size() - 1; }
  static bool is_last() { return get_rank() == last(); }

  static Tensors empties(const at::Tensor& like) {
    return of_all_ranks([&](int) { return at::empty_like(like); });
  }

  // Expects replays on other inputs to equal the function.
  static Trace expect_replays(const Function& function) {
    const Trace its = trace(function, {input()});
    for (const int change : {3, -5}) {
      const at::Tensor eager = input() * change, given = eager.clone();
      const Tensors expected = function({eager}), got = its.replay({given});
      expect_equal(got, expected);
      expect_equal({given}, {eager});
    }
    return its;
  }

  static void expect_equal(const Tensors& got, const Tensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << i << ":\n"
                                             << got[i] << "\nexpected\n"
                                             << expected[i];
    }
  }

  // Whether the output depends on the collective through a wait. Each node on the way must be a
  // user of its input.
  static bool comes_from(const Trace& trace, const std::string& collective) {
    return leads_to(trace.graph().output(), collective, /*has_waited=*/false);
  }
  static bool leads_to(const Node& user, const std::string& collective, bool has_waited) {
    const auto inputs = user.inputs();
    return std::any_of(inputs.begin(), inputs.end(), [&](const Node* node) {
      if (std::count(node->users.begin(), node->users.end(), &user) != 1) return false;
      const bool waits = has_waited || node->op_name() == "_c10d_functional.wait_tensor";
      if (node->op_name() == collective) return waits;
      return leads_to(*node, collective, waits);
    });
  }

  static bool has_no_results(const Trace& trace) { return trace.graph().output().inputs().empty(); }

  static std::size_t waits_of(const Trace& trace) {
    std::size_t waits = 0;
    for (const Node& node : trace.graph().nodes()) {
      if (node.op_name() == "_c10d_functional.wait_tensor") ++waits;
    }
    return waits;
  }

  // `begin` returns the Work and the tensors that the collective writes on this rank.
  struct CollectiveCase {
    std::string op;
    std::function<std::pair<Work, Tensors>(const at::Tensor&, const CollectiveOptions&)> begin;
  };
  static std::vector<CollectiveCase> cases();
};

inline Tensors doubled(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back(one * 2);
  return all;
}

}  // namespace distrun
