// What tests have in common that run in the group of init_process_group().
#pragma once

#include "testsuites/testing/distributed_test.h"

namespace distrun {

// Every rank is in the default group, "gloo" on the loopback, when the test begins.
class DefaultGroupTest : public DistributedTest {
 protected:
  void SetUp() override;
  // Where the test has failed, the group stays: a rank that still waits in it would hold this one.
  void TearDown() override;
};

}  // namespace distrun
