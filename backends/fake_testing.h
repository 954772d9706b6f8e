// For tests of "fake": a default group of any size, in this process alone.
#pragma once

#include <ostream>
#include <string>

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/collectives.h"
#include "backends/fake.h"
#include "backends/process_group.h"

namespace distrun {

inline void PrintTo(const WireTraffic& one, std::ostream* out) {
  *out << one.operation << " calls " << one.calls << " payload " << one.payload << " sent "
       << one.sent << " received " << one.received;
}

// For as long as it lives, memory that nobody has written is NaN, or a number's largest.
class UnwrittenMemoryIsSeen {
 public:
  UnwrittenMemoryIsSeen() { at::globalContext().setDeterministicAlgorithms(true, false); }
  UnwrittenMemoryIsSeen(const UnwrittenMemoryIsSeen&) = delete;
  UnwrittenMemoryIsSeen& operator=(const UnwrittenMemoryIsSeen&) = delete;
  ~UnwrittenMemoryIsSeen() { at::globalContext().setDeterministicAlgorithms(false, false); }
};

class FakeWorldTest : public ::testing::Test {
 protected:
  void TearDown() override { leave(); }

  static void leave() {
    if (is_initialized()) destroy_process_group();
  }
  static void enter(int rank, int world_size, const BackendOptions& options = {}) {
    leave();
    init_process_group(
        {.backend = "fake", .backend_options = options, .rank = rank, .world_size = world_size});
  }

  // As LibTorch's group calls it: our own checks have not been made.
  static c10d::Backend& backend() {
    return *default_group().getBackend(c10::DeviceType::CPU);  // The group has it, too.
  }

  // The text of the `Error` that `act` throws; any other is the test's failure.
  template <class Error = c10::Error, class Act>
  static std::string error_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }
};

}  // namespace distrun
