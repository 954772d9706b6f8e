#include <gtest/gtest.h>

#include "sharing/spawn.h"

int main(int argc, char** argv) {
  distrun::run_if_spawned();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
