#include <gtest/gtest.h>

#include "distrun/spawn.h"

int main(int argc, char** argv) {
  distrun::run_if_spawned();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
