// For tests of collectives: inputs that any rank can compute, and their sums.
#pragma once

#include <cstddef>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "backends/test/multirank_test.h"

namespace distrun {

class CollectivesFixture : public MultirankTest {
 protected:
  static Tensors empties() {
    return of_all_ranks([](int) { return at::full({2, 3}, -1.0); });
  }
  static Tensors inputs() { return of_all_ranks(input_of); }
  static at::Tensor sum() { return at::stack(inputs()).sum(0); }
  static bool is_last() { return get_rank() == get_world_size() - 1; }
  static int next(int by = 1) { return (get_rank() + by) % get_world_size(); }
  static int previous() { return next(get_world_size() - 1); }

  static void expect_equal(const Tensors& got, const Tensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << "of rank " << i << ": " << got[i];
    }
  }

  template <class Act>
  static std::string error_of(const Act& act) {
    return MultirankTest::error_of<c10::ValueError>(act);
  }
};

}  // namespace distrun
