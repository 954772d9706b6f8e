// For tests of "fake": a default group of any size in this process alone.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/test/multirank_test.h"
#include "distrun/fake.h"

namespace distrun {

inline void PrintTo(const WireTraffic& one, std::ostream* out) {
  *out << one.operation << " calls " << one.calls << " payload " << one.payload << " sent "
       << one.sent << " received " << one.received;
}

// While it lives, unwritten memory is NaN, or the largest value of an integer dtype.
class UnwrittenMemoryIsSeen {
 public:
  UnwrittenMemoryIsSeen() { at::globalContext().setDeterministicAlgorithms(true, false); }
  UnwrittenMemoryIsSeen(const UnwrittenMemoryIsSeen&) = delete;
  UnwrittenMemoryIsSeen& operator=(const UnwrittenMemoryIsSeen&) = delete;
  ~UnwrittenMemoryIsSeen() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

// A MultirankTest whose tests create their own default groups.
class FakeWorldTest : public MultirankTest {
 protected:
  void SetUp() override {}
  void TearDown() override { leave(); }

  static void leave() {
    if (is_initialized()) destroy_process_group();
  }
  static void enter(int rank, int world_size, const BackendOptions& options = {}) {
    leave();
    init_process_group(
        {.backend = "fake", .backend_options = options, .rank = rank, .world_size = world_size});
  }

  static at::Tensor row(std::int64_t first) {
    return at::arange(first, first + 6, at::kFloat).view({2, 3});
  }

  // LibTorch's group calls it directly, without the checks of collectives.h.
  static c10d::Backend& backend() {
    return *default_group().getBackend(c10::DeviceType::CPU);  // The group keeps it alive.
  }
};

}  // namespace distrun
