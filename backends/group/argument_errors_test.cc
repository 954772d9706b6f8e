// The exact text of each error about arguments, in one process: in a fake world of four ranks, or
// as the only rank of a Gloo group.
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/fake/test/fake_world.h"
#include "backends/group/rendezvous.h"
#include "backends/group/rows.h"
#include "distrun/backend_registry.h"
#include "distrun/fake.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::EndsWith;

// Rank 1 of four.
class ArgumentErrorsTest : public FakeWorldTest {
 protected:
  void SetUp() override { enter(1, 4); }

  template <class Act>
  static std::string text_of(const Act& act) {
    return error_of<c10::ValueError>(act);
  }

  const at::Tensor x_ = row(0);  // [2, 3]
};

TEST_F(ArgumentErrorsTest, OfTensors) {
  EXPECT_EQ(text_of([] { all_reduce(at::Tensor()); }),
            "all_reduce on rank 1: tensor is an undefined tensor");
  const at::Tensor csr = at::ones({2, 2}).to_sparse_csr();
  EXPECT_EQ(text_of([&] { all_reduce(csr); }),
            "all_reduce on rank 1: tensor is SparseCsr; expected a dense tensor (to_dense()) or a "
            "sparse one in COO format (to_sparse())");
  EXPECT_EQ(text_of([&] { broadcast(csr, 0); }),
            "broadcast on rank 1: tensor is SparseCsr; expected a dense tensor (to_dense())");
  EXPECT_EQ(text_of([&] { broadcast(at::empty({2}, at::kMeta), 0); }),
            "broadcast on rank 1: tensor is on meta, and the default group has no backend for "
            "that: it has fake");
  EXPECT_EQ(text_of([&] { broadcast(at::ones({1}).expand({2}), 0); }),
            "broadcast on rank 1: tensor has elements that share memory (sizes [2], strides [0]); "
            "expected a tensor that can be written to: clone() it");
  const at::Tensor complex = at::ones({2}, at::kComplexFloat);
  EXPECT_EQ(text_of([&] { all_reduce(complex, ReduceOp::MAX); }),
            "all_reduce on rank 1: the tensor is of ComplexFloat, and complex numbers have no MAX; "
            "expected SUM or AVG");
  EXPECT_EQ(text_of([&] { all_reduce(complex, ReduceOp::UNUSED); }),
            "all_reduce on rank 1: the tensor is of ComplexFloat, and complex numbers have no "
            "UNUSED; expected SUM or AVG");
}

TEST_F(ArgumentErrorsTest, OfTensorsThatDoNotMatch) {
  EXPECT_EQ(text_of([&] { all_gather({x_}, x_); }),
            "all_gather on rank 1: tensors has 1 tensor; expected 4, one for each rank of the "
            "default group");
  EXPECT_EQ(text_of([&] {
              all_gather({x_.to(at::kInt), x_, x_, x_}, x_);
            }),
            "all_gather on rank 1: tensors[0] has dtype Int; expected Float, the dtype of tensor");
  EXPECT_EQ(
      text_of([&] {
        all_gather({x_, x_, at::zeros({3, 2}), x_}, x_);
      }),
      "all_gather on rank 1: tensors[2] has sizes [3, 2]; expected [2, 3], the sizes of tensor");
  EXPECT_EQ(text_of([&] { all_gather_into_tensor(at::zeros({1}), x_); }),
            "all_gather_into_tensor on rank 1: output has 1 elements ([1]); expected as many as "
            "input ([2, 3]) times 4 ranks");
  EXPECT_EQ(text_of([&] {
              gather(x_, {x_, x_}, 0);
            }),
            "gather on rank 1: tensors has 2 tensors; expected none: only group rank 0, the root, "
            "passes tensors");
  EXPECT_EQ(text_of([] { all_reduce_coalesced({}); }),
            "all_reduce_coalesced on rank 1: tensors is empty; expected a tensor");
  EXPECT_EQ(text_of([] { all_gather_coalesced({}, {}); }),
            "all_gather_coalesced on rank 1: inputs is empty; expected a tensor");
  EXPECT_EQ(text_of([&] { all_gather_coalesced({}, {x_}); }),
            "all_gather_coalesced on rank 1: there are 0 lists; expected 1, one for each of "
            "inputs");
}

TEST_F(ArgumentErrorsTest, OfBytes) {
  EXPECT_EQ(text_of([] {
              scatter_bytes({"a", "b"}, 1);
            }),
            "scatter_bytes on rank 1: bytes has 2 elements; expected 4, one for each rank of the "
            "default group");
  EXPECT_EQ(text_of([] { scatter_bytes({"a"}, 0); }),
            "scatter_bytes on rank 1: bytes has 1 elements; expected none: only group rank 0, the "
            "root, passes bytes");
  std::string bytes;
  EXPECT_EQ(text_of([] { send_bytes("a", 1); }),
            "send_bytes on rank 1: the peer is this rank itself; expected another one");
  EXPECT_EQ(text_of([&] { recv_bytes(bytes, 0, {.tag = -1}); }),
            "recv_bytes on rank 1: the tag is -1; expected 0 or more");
}

TEST_F(ArgumentErrorsTest, OfTensorsOnSeveralDevices) {
  leave();
  init_process_group({.backend = "cpu:fake,meta:fake", .rank = 1, .world_size = 4});
  EXPECT_EQ(text_of([&] {
              all_gather({x_, x_.to(at::kMeta), x_, x_}, x_);
            }),
            "all_gather on rank 1: tensors[1] is on meta; expected cpu, the device of tensor");
}

TEST_F(ArgumentErrorsTest, OfSplits) {
  const auto error = [](const at::Tensor& output, const at::Tensor& input,
                        const std::vector<std::int64_t>& sizes = {}) {
    return text_of([&] { all_to_all_single(output, input, sizes, {}); });
  };
  const at::Tensor eight = at::zeros({8});
  EXPECT_EQ(error(at::zeros({}), eight),
            "all_to_all_single on rank 1: output is a scalar; expected a tensor with at least one "
            "dimension");
  EXPECT_EQ(error(x_, eight),
            "all_to_all_single on rank 1: the first dimension of output is 2; expected a multiple "
            "of 4, the ranks of the default group, or explicit split sizes");
  EXPECT_EQ(error(eight, eight, {8}),
            "all_to_all_single on rank 1: output has 1 split sizes; expected 4, one for each rank "
            "of the default group");
  EXPECT_EQ(error(eight, eight, {9, 0, 0, -1}),
            "all_to_all_single on rank 1: the split sizes of output have -1; expected 0 or more");
  EXPECT_EQ(error(eight, eight, {1, 2, 3, 1}),
            "all_to_all_single on rank 1: the split sizes of output add up to 7; expected 8, its "
            "first dimension");
  EXPECT_EQ(error(eight, at::zeros({4})),
            "all_to_all_single on rank 1: the part for this rank itself has 2 elements in output "
            "([8]) and 1 in input ([4])");
  EXPECT_EQ(error(at::zeros({8}, at::kComplexFloat), eight),
            "all_to_all_single on rank 1: the part for this rank itself has 4 elements in output "
            "([8]) and 2 in input ([8]); a complex element counts as two");
}

TEST_F(ArgumentErrorsTest, OfRanksAndTags) {
  EXPECT_EQ(text_of([&] { broadcast(x_, 4); }),
            "broadcast on rank 1: rank 4 is not in the default group (ranks 0-3)");
  EXPECT_EQ(text_of([&] { reduce(x_, GroupRank(-1)); }),
            "reduce on rank 1: group rank -1 is not in the default group; expected 0 to 3");
  EXPECT_EQ(text_of([&] { send(x_, 1); }),
            "send on rank 1: the peer is this rank itself; expected another one");
  EXPECT_EQ(text_of([&] { send(x_, 0, {.tag = -1}); }),
            "send on rank 1: the tag is -1; expected 0 or more");
  const Group alone = new_group({1});
  EXPECT_EQ(text_of([&] { recv(x_, std::nullopt, {.group = alone}); }),
            "recv on rank 1: group 1 of rank 1 has no other rank to receive from");
  EXPECT_EQ(text_of([] { batch_isend_irecv({}); }),
            "batch_isend_irecv: the list of operations is empty");
  const Group two = new_group({0, 1});
  EXPECT_EQ(text_of([&] {
              batch_isend_irecv(
                  {{.kind = P2POp::Kind::kSend, .tensor = x_, .peer = 0},
                   {.kind = P2POp::Kind::kSend, .tensor = x_, .peer = 0, .options = {two}}});
            }),
            "batch_isend_irecv: all operations must be in the same group");
}

TEST_F(ArgumentErrorsTest, OfGroups) {
  using Ranks = std::vector<int>;
  EXPECT_EQ(text_of([] { new_group(Ranks{}); }),
            "new_group on rank 1: the list of ranks is empty; expected a rank, or std::nullopt for "
            "all");
  EXPECT_EQ(text_of([] {
              new_group(Ranks{0, 7});
            }),
            "new_group on rank 1: rank 7 is out of range; expected 0 to 3");
  EXPECT_EQ(text_of([] {
              new_group(Ranks{1, 0, 1});
            }),
            "new_group on rank 1: rank 1 is listed twice");
  EXPECT_EQ(text_of([] { new_group(std::nullopt, {.timeout = std::chrono::milliseconds(0)}); }),
            "new_group: the timeout is 0 ms; expected more than 0");
  EXPECT_EQ(text_of([] { set_timeout(std::chrono::milliseconds(-1)); }),
            "set_timeout: the timeout is -1 ms; expected more than 0");
  EXPECT_EQ(text_of([] { monitored_barrier({.timeout = std::chrono::milliseconds(-1)}); }),
            "monitored_barrier on rank 1: the timeout is -1 ms; expected a positive one, or none "
            "for the group's");
  EXPECT_EQ(text_of([] { new_subgroups(3); }),
            "new_subgroups on rank 1: cannot divide 4 ranks into groups of 3");
  EXPECT_EQ(text_of([] { new_subgroups_by_enumeration({}); }),
            "new_subgroups_by_enumeration: the list of groups is empty");
  EXPECT_EQ(text_of([] {
              new_subgroups_by_enumeration({{0, 1}, {1, 2}});
            }),
            "new_subgroups_by_enumeration on rank 1: rank 1 is in two of the groups");
}

TEST_F(ArgumentErrorsTest, OfGroupsThatCannotBeUsed) {
  EXPECT_EQ(error_of([] { init_process_group(); }),
            "init_process_group: the process group is already initialized");
  const Group others = new_group({0, 2}), gone = new_group({1, 3});
  EXPECT_EQ(error_of([&] { others.process_group(); }), "this rank is not in group 1 of ranks 0, 2");
  destroy_process_group(gone);
  EXPECT_EQ(error_of([&] { gone.process_group(); }), "group 2 of ranks 1, 3 has been destroyed");
  EXPECT_THAT(error_of([] { default_group().getStore()->get("key"); }),
              EndsWith("key': a FakeStore stores no values; create the default group with another "
                       "store (InitOptions::store), such as c10d::HashStore"));
  leave();
  const std::string none = "no process group: call init_process_group() first";
  EXPECT_EQ(error_of([&] { all_reduce(x_); }), none);
  EXPECT_EQ(error_of([] { get_process_group_ranks(); }), none);
  EXPECT_EQ(error_of([] { new_group(); }), none);
}

TEST_F(ArgumentErrorsTest, OfInitProcessGroup) {
  leave();
  const auto error = [](const InitOptions& options) {
    return text_of([&] { init_process_group(options); });
  };
  EXPECT_EQ(error({.backend = "fake", .timeout = std::chrono::milliseconds(0)}),
            "init_process_group: the timeout is 0 ms; expected more than 0");
  EXPECT_EQ(error({.backend = "fake", .rank = 5, .world_size = 4}),
            "rendezvous: the rank is 5; expected 0 to 3 (the world size is 4)");
  EXPECT_EQ(error({.backend = "fake", .rank = 0, .world_size = 0}),
            "rendezvous: the world size is 0; expected 1 or more");
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(error({.init_method = "env://", .rank = 0, .world_size = 1, .store = store}),
            "init_process_group: give a store or an init_method ('env://'), not both");
  EXPECT_EQ(error({.world_size = 2, .store = store}),
            "init_process_group: a store requires rank and world_size; the rank is not given and "
            "the world size is 2");
  EXPECT_EQ(error({.init_method = "tcp://here", .rank = 0, .world_size = 1}),
            "rendezvous: init_method: 'tcp://here' has no port; supported are env://, "
            "tcp://HOST:PORT and file:///absolute/path");
}

TEST_F(ArgumentErrorsTest, OfRegisteredBackends) {
  leave();
  const auto maker = [](const BackendRequest&) { return c10::intrusive_ptr<c10d::Backend>(); };
  if (!is_backend_available("hollow")) {  // It is with --gtest_repeat.
    register_backend("hollow", maker, {c10::kCPU});
    register_backend("hollow2", maker, {c10::kCUDA});
  }
  EXPECT_EQ(text_of([] { init_process_group("cpu:hollow,cuda:hollow2"); }),
            "the backend 'cpu:hollow,cuda:hollow2' names two registered backends; LibTorch "
            "supports one per group");
  const InitOptions options{.backend = "hollow",
                            .rank = 0,
                            .world_size = 1,
                            .store = c10::make_intrusive<c10d::HashStore>()};
  EXPECT_EQ(
      error_of([&] { init_process_group(options); }),
      "the maker of backend 'hollow' returned null; expected a backend (rank 0 creates group 0 "
      "of rank 0)");
}

TEST(RendezvousErrorsTest, OfVariablesThatAreNotSet) {
  const auto error = [](const std::string& missing) {
    Environment environment;
    for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
      if (name != missing) environment.set(name, "1");
    }
    try {
      internal::rendezvous(environment, "", std::chrono::seconds(1));
    } catch (const c10::Error& failed) {
      return std::string(failed.what_without_backtrace());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error("WORLD_SIZE"),
            "rendezvous: the variable WORLD_SIZE is not set, and InitOptions::world_size is not "
            "given; was the program started with `distrun launch` or torchrun?");
}

TEST(RowsErrorsTest, OfAnOutputThatHasNoRows) {
  const auto error = [](const at::Tensor& whole) {
    try {
      internal::rows_of(whole, at::zeros({3}), 2);
    } catch (const c10::ValueError& failed) {
      return std::string(failed.what_without_backtrace());
    }
    return std::string("no error");
  };
  const std::string expected = "; expected a contiguous tensor with 6 elements";
  EXPECT_EQ(error(at::zeros({5})), "the output has sizes [5]" + expected);
  EXPECT_EQ(error(at::zeros({3, 2}).t()), "the output has sizes [2, 3]" + expected);
  EXPECT_EQ(error({}), "the output has sizes []" + expected);
}

// The only rank of a Gloo group.
class GlooArgumentErrorsTest : public ArgumentErrorsTest {
 protected:
  void SetUp() override {
    init_process_group({.backend = "gloo",
                        .rank = 0,
                        .world_size = 1,
                        .store = c10::make_intrusive<c10d::HashStore>()});
  }
};

TEST_F(GlooArgumentErrorsTest, OfReductions) {
  EXPECT_EQ(
      text_of([&] { reduce(x_.to(at::kShort), 0); }),
      "reduce on rank 0: tensor has dtype Short, which gloo does not reduce; expected double, "
      "float, half, bfloat16, uint8, int8, int32, int64 or bool");
  ReduceOp scaled_sum;
  scaled_sum.op_ = ReduceOp::PREMUL_SUM;
  EXPECT_EQ(text_of([&] { all_reduce(x_, scaled_sum); }),
            "all_reduce on rank 0: gloo has no PREMUL_SUM; expected SUM or AVG");
  EXPECT_EQ(text_of([&] { all_reduce(x_.to_sparse(), ReduceOp::MAX); }),
            "all_reduce on rank 0: gloo has no MAX of sparse tensors; expected SUM");
  EXPECT_EQ(text_of([&] { all_reduce(x_.to(at::kInt), ReduceOp::AVG); }),
            "all_reduce on rank 0: gloo has no AVG of Int; expected SUM, or numbers of a floating "
            "type");
  EXPECT_EQ(text_of([&] { all_reduce(x_, ReduceOp::BAND); }),
            "all_reduce on rank 0: gloo has no BAND of Float; expected whole numbers or booleans");
}

TEST_F(GlooArgumentErrorsTest, OfDevices) {
  leave();
  init_process_group({.backend = "cpu:gloo,meta:gloo",
                      .rank = 0,
                      .world_size = 1,
                      .store = c10::make_intrusive<c10d::HashStore>()});
  EXPECT_EQ(text_of([&] { all_reduce_coalesced({x_.to(at::kMeta)}); }),
            "all_reduce_coalesced on rank 0: tensors[0] is on meta; gloo supports this operation "
            "only on the CPU");
}

TEST_F(GlooArgumentErrorsTest, OfTrafficThatIsNotCounted) {
  EXPECT_EQ(text_of([] { wire_traffic(Group()); }),
            "wire_traffic: the default group uses gloo, which does not count traffic; use the "
            "backend fake");
}

}  // namespace
}  // namespace distrun
