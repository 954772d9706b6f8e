// For test programs that every rank of a run executes: each test has a default group of its own.
#pragma once

#include <chrono>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "backends/collectives.h"
#include "backends/process_group.h"

namespace distrun {

class RanksTest : public ::testing::Test {
 protected:
  // Short, so that a rank that fails does not keep the others for long.
  void SetUp() override { init_process_group({.timeout = std::chrono::seconds(30)}); }
  void TearDown() override {
    if (!is_initialized()) return;
    barrier();
    destroy_process_group();
  }

  // What rank `rank` puts in: every rank can compute what another has.
  static at::Tensor input_of(int rank) {
    return at::arange(6, at::kFloat).view({2, 3}) + 10 * rank;
  }
  static at::Tensor input() { return input_of(get_rank()); }

  // f(0), f(1), … of all ranks of the run.
  template <class Function>
  static auto of_all_ranks(const Function& function) {
    std::vector<decltype(function(0))> all;
    for (int rank = 0; rank < get_world_size(); ++rank) all.push_back(function(rank));
    return all;
  }
};

}  // namespace distrun
