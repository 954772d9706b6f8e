// Distributed tests: GoogleTest tests that every rank of a group runs, each in a process of its
// own, and that pass where all ranks pass.
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
// Its id is "mine.SumTest.test_sum".  The program gets its main() from distrun::testing_main:
//
//     find_package(distrun REQUIRED COMPONENTS testing)
//     add_executable(my_tests sum_test.cc)
//     target_link_libraries(my_tests PRIVATE distrun::testing_main)
//
//     distrun test --binary build/my_tests mine
//
// The class is a GoogleTest fixture: SetUp() and TearDown() run on every rank.  It is named without
// namespaces, as its name becomes a part of others.  The needs have to be there: {} where nothing
// differs from TestNeeds' defaults.  Files of tests are sources of the program itself, or of an
// object library: those of a static library the linker leaves out, for nobody calls a test.
//
// EXPECT_*, ASSERT_*, SCOPED_TRACE, GTEST_SKIP work as everywhere; testing/tensors.h and
// testing/throws.h, which this header includes, have more of them.  A rank that makes no assertion
// fails: a file that asserts includes this header, not <gtest/gtest.h> alone, which does not count.
// A skip is all ranks' or it is an error; what the runner can know (GPUs, backends) belongs into
// the needs, which it looks at before anything is started.
//
// A test of faults says in its needs how ranks are to end, and in its body what the others are to
// notice, and when:
//
//     DISTRIBUTED_TEST(mine, SumTest, test_dead_peer,
//                      {.ranks = 3, .expected_ends = {{1, distrun::KilledBy{SIGKILL}}}}) {
//       distrun::init_process_group();
//       rendezvous();  // Or rank 1 may be gone while the others still connect.
//       if (rank() == 1) ::raise(SIGKILL);
//       at::Tensor x = at::ones({3});
//       EXPECT_THROWS_WITHIN(distrun::all_reduce(x), std::chrono::seconds(5), c10::Error, "");
//     }
//
// Before its body a rank has: RANK, LOCAL_RANK, WORLD_SIZE, DISTRUN_INIT_METHOD (a file of its
// test's own, so init_process_group() works), a current folder of its own, which is TMPDIR too and
// empty, /dev/null as stdin, and torch::manual_seed(1234).  After it the process ends by _exit():
// what static objects would do at the end does not happen.
//
// Nothing at namespace scope of a test program may start a thread, run a tensor operation or touch
// a GPU: the processes are forks of one that has loaded LibTorch, and that refuses to go on then.
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

// What a rank of a test has at hand.
class DistributedTest : public ::testing::Test {
 public:
  // Of this rank, and of how many.
  static int rank();
  static int world_size();

  // "gloo", unless --backend said otherwise.
  static const std::string& backend();

  // A path in the folder that all ranks of this test share; it is empty when the test begins.
  static std::string shared_path(const std::string& name);

  // The store of the ranks of this test: a c10d::FileStore.  Another name, another store; the same
  // name, the same object.
  static c10::intrusive_ptr<c10d::Store> store(const std::string& name = "store");

  // Returns when every rank has come to `place`.  Unlike a barrier() it is by a file: whoever has
  // returned from it can die, and the others return all the same.
  static void rendezvous(const std::string& place = "here");
};

namespace internal {

// "suite.Class", and into the list that the test host shows.  Lives as long as the program.
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

// (suite, Class, name, {needs}): the needs, a TestNeeds, may hold commas, so they come last.
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
