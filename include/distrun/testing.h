// DISTRIBUTED_TEST defines a distributed test: a GoogleTest test that several ranks run together,
// each in its own process.  The test passes if every rank passes.
//
//     #include <ATen/ops/full.h>
//     #include <distrun/collectives.h>
//     #include <distrun/process_group.h>
//     #include <distrun/testing.h>
//
//     struct SumTest : distrun::DistributedTest {};
//
//     DISTRIBUTED_TEST(mine, SumTest, test_sum, {.ranks = 4}) {
//       distrun::init_process_group();
//       at::Tensor sum = at::full({3}, rank());
//       distrun::all_reduce(sum);
//       EXPECT_TENSORS_EQUAL(sum, at::full({3}, 6));
//     }
//
// The id of this test is "mine.SumTest.test_sum".  The target distrun::testing_main provides
// main():
//
//     find_package(distrun REQUIRED COMPONENTS testing)
//     add_executable(my_tests sum_test.cc)
//     target_link_libraries(my_tests PRIVATE distrun::testing_main)
//
//     distrun test --binary build/my_tests mine
//
// Compile tests into the program or into an object library, because a linker drops tests from a
// static library.  In DISTRIBUTED_TEST, write the fixture's name without a namespace, because the
// macro creates other names from it.  The fixture's SetUp() and TearDown() run on every rank.
//
// EXPECT_*, ASSERT_*, SCOPED_TRACE and GTEST_SKIP work as usual.  testing/tensors.h and
// testing/throws.h, which this header includes, add more assertions.  A rank fails if it runs no
// assertion, unless it skips the test, or the test expects it to die (`expected_ends`, below).
// Include this header in every file that contains assertions.  In a file that includes
// <gtest/gtest.h> without this header, assertions are not counted.  If some ranks skip a test and
// others do not, the test fails.
//
// The last argument of DISTRIBUTED_TEST is a TestNeeds (test_info.h).  For example, it contains the
// number of ranks, the number of GPUs that the test needs, and the backends with which the test can
// run.  If the machine has fewer GPUs, `distrun test` skips the test and starts no process for it.
//
// If a rank must die in a test, list this rank in `expected_ends` with its exit code or signal.  In
// this example, the other ranks check which error they get, and that they get it within five
// seconds:
//
//     DISTRIBUTED_TEST(mine, SumTest, test_dead_peer,
//                      {.ranks = 3, .expected_ends = {{1, distrun::KilledBy{SIGKILL}}}}) {
//       distrun::init_process_group();
//       rendezvous();  // Otherwise rank 1 may die while the other ranks still connect.
//       if (rank() == 1) ::raise(SIGKILL);
//       at::Tensor x = at::ones({3});
//       EXPECT_THROWS_WITHIN(distrun::all_reduce(x), std::chrono::seconds(5), c10::Error, "");
//     }
//
// Each rank starts as follows:
//   - RANK, LOCAL_RANK and WORLD_SIZE are set.  DISTRUN_INIT_METHOD names a file of this test, or
//     is env:// if the ranks run on several nodes, so init_process_group() works.
//   - The current folder is an empty folder of this rank, which is also TMPDIR.
//   - stdin is /dev/null, except with `distrun test --rank-under`.
//   - The random seed (torch::manual_seed()) is the value of `distrun test --seed`, by default
//     1234.
//
// A rank ends with _exit(), so static objects are not destroyed.
//
// By default, each rank is a fork of a process that has loaded LibTorch.  If code at namespace
// scope starts a thread, runs a tensor operation or uses a GPU, the tests fail with a message that
// says so.  Run such tests with `distrun test --isolation exec`, which starts each rank as a new
// process.
//
// Cost: each rank is one process.  A fork takes a few milliseconds.  With --isolation exec, each
// rank takes a third of a second to load LibTorch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/detail/counted_assertions.h"
#include "distrun/test_info.h"
#include "distrun/testing/tensors.h"
#include "distrun/testing/throws.h"

namespace distrun {

// The base class of fixtures.  Its functions read the environment variables that `distrun test`
// sets for each rank.  If a variable is missing, these functions throw std::runtime_error, except
// backend(), which returns "gloo".
class DistributedTest : public ::testing::Test {
 public:
  // Returns the number of this rank, from 0.
  static int rank();
  // Returns the number of ranks.
  static int world_size();

  // Returns the backend to test.  This is the value of --backend.  Without this flag, it is the
  // first backend in TestNeeds::backends.
  static const std::string& backend();

  // Returns the number of nodes on which the ranks of this test run.  It is 1 unless you start
  // `distrun test` on several nodes (--nnodes, --hosts) and this test has several ranks.
  static int nodes();

  // Returns the path of `name` in the folder that the ranks of this test share.  With several
  // nodes, only the ranks of one node share a folder.  At the start, this folder contains the
  // current folders of the ranks (rank_0, rank_1 and so on) and nothing else. Later it can also
  // contain the file "init" (from init_process_group()), the file "places" (from rendezvous()), and
  // the files of store().
  static std::string shared_path(const std::string& name);

  // Returns a store that the ranks of this test share.  Ranks that pass the same name use the same
  // keys.  Within one rank, repeated calls with the same name return the same object.  The store is
  // a c10d::FileStore, or with several nodes a c10d::PrefixStore of a TCPStore.
  static c10::intrusive_ptr<c10d::Store> store(const std::string& name = "store");

  // Waits for all ranks.  rendezvous() uses a store and no collective.  Therefore, a rank may die
  // as soon as its rendezvous() has returned, and rendezvous() still returns on the other ranks.
  // For another rendezvous in the same test, use another `place`.
  //
  // Blocks: until every rank has called rendezvous() with this `place`, at most five minutes.
  // Throws: c10::Error after five minutes.
  // Cost: on one node, each rank reads a file every 10 ms.
  static void rendezvous(const std::string& place = "here");
};

namespace internal {

// Adds a test to the list of tests that this program sends to `distrun test`.  Returns
// "suite.Class", which lives as long as the program.
const char* note_test(const char* suite, const char* test_class, const char* name,
                      const TestNeeds& needs, const char* file, int line);

template <class Fixture>
int register_test(const char* suite, const char* test_class, const char* name,
                  const TestNeeds& needs, const char* file, int line, Fixture* (*make)()) {
  ::testing::RegisterTest(note_test(suite, test_class, name, needs, file, line), name, nullptr,
                          nullptr, file, line, make);
  return 0;
}

}  // namespace internal
}  // namespace distrun

// Defines a test.  The arguments are (suite, Class, name, {needs}).  {needs} is a TestNeeds, and {}
// means the defaults of TestNeeds.
#define DISTRIBUTED_TEST(suite, Class, name, ...)                                      \
  class suite##_##Class##_##name##_Test : public Class {                               \
   private:                                                                            \
    void TestBody() override;                                                          \
    [[maybe_unused]] static const int registered_;                                     \
  };                                                                                   \
  const int suite##_##Class##_##name##_Test::registered_ =                             \
      ::distrun::internal::register_test<Class>(                                       \
          #suite, #Class, #name, ::distrun::TestNeeds __VA_ARGS__, __FILE__, __LINE__, \
          []() -> Class* { return new suite##_##Class##_##name##_Test(); });           \
  void suite##_##Class##_##name##_Test::TestBody()
