// NCCL_TEST defines two tests of the suite `nccl`: one with a rank, for machines with one GPU, and
// one with two ranks, whose name ends with _on_two_gpus.
//
//     NCCL_TEST(CollectivesTest, test_broadcast) {
//       const at::Tensor x = make(at::ones({3}));  // On this rank's GPU.
//       …
//     }
#pragma once

#include <ATen/core/Tensor.h>

#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {

class NcclTest : public DefaultGroupTest {
 protected:
  static at::Tensor make(const at::Tensor& tensor) { return tensor.to(gpu()); }
  static int size() { return get_world_size(); }
};

}  // namespace distrun

// The body is a static member, so it sees the fixture's.
#define NCCL_TEST(Class, name)                                                             \
  struct Class##_##name : Class {                                                          \
    static void run();                                                                     \
  };                                                                                       \
  DISTRIBUTED_TEST(nccl, Class, name, {.ranks = 1, .min_gpus = 1, .backends = {"nccl"}}) { \
    Class##_##name::run();                                                                 \
  }                                                                                        \
  DISTRIBUTED_TEST(nccl, Class, name##_on_two_gpus,                                        \
                   {.ranks = 2, .min_gpus = 2, .backends = {"nccl"}}) {                    \
    Class##_##name::run();                                                                 \
  }                                                                                        \
  void Class##_##name::run()
