// The fixture of PyTorch's test_fake_pg.py: one process acts as one of several ranks, and receives
// its own data, if any.
#pragma once

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "distrun/fake.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {

class TestFakePG : public DefaultGroupTest {
 protected:
  void SetUp() override {}
  void TearDown() override {
    if (is_initialized()) destroy_process_group();
  }

  static void be_rank(int its, int world_size = 2) {
    init_process_group({.backend = "fake",
                        .rank = its,
                        .world_size = world_size,
                        .store = c10::make_intrusive<FakeStore>()});
  }
};

}  // namespace distrun
