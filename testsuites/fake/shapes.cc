#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "distrun/collectives.h"
#include "distrun/fake.h"
#include "distrun/point_to_point.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

// Tests that check no values: they run on Gloo and, with `--backend fake`, without a network.
class ShapesTest : public DefaultGroupTest {
 protected:
  static at::Tensor rows(int64_t count) { return at::ones({count, 3}); }
  static Tensors list(int64_t count) {
    Tensors all;
    for (int i = 0; i < world_size(); ++i) all.push_back(rows(count));
    return all;
  }
};

DISTRIBUTED_TEST(fake, ShapesTest, test_gathered, {.ranks = 3, .backends = {"gloo", "fake"}}) {
  const Tensors tensors = list(2);
  all_gather(tensors, rows(2));
  for (const at::Tensor& one : tensors) EXPECT_EQ(one.sizes(), rows(2).sizes());
  const at::Tensor all = at::empty({2 * world_size(), 3});
  all_gather_into_tensor(all, rows(2), {.async_op = true}).wait();
  EXPECT_EQ(all.sizes(), rows(2 * world_size()).sizes());
  EXPECT_EQ(all_gather_bytes("abc").size(), static_cast<std::size_t>(world_size()));
}

DISTRIBUTED_TEST(fake, ShapesTest, test_scattered, {.ranks = 3, .backends = {"gloo", "fake"}}) {
  const at::Tensor part = rows(2);
  reduce_scatter(part, list(2));
  scatter(part, rank() == 1 ? list(2) : Tensors(), /*src=*/1);
  all_to_all(list(1), list(1));
  all_to_all_single(rows(world_size()), rows(world_size()));
  EXPECT_EQ(part.sizes(), rows(2).sizes());
}

DISTRIBUTED_TEST(fake, ShapesTest, test_messages, {.ranks = 3, .backends = {"gloo", "fake"}}) {
  const int next = (rank() + 1) % world_size(), before = (rank() + world_size() - 1) % world_size();
  const at::Tensor message = rows(2);
  const auto works =
      batch_isend_irecv({{.kind = P2POp::Kind::kSend, .tensor = rows(2), .peer = next},
                         {.kind = P2POp::Kind::kReceive, .tensor = message, .peer = before}});
  for (const Work& work : works) work.wait();
  EXPECT_EQ(message.sizes(), rows(2).sizes());
}

DISTRIBUTED_TEST(fake, ShapesTest, test_subgroups, {.ranks = 3, .backends = {"gloo", "fake"}}) {
  const Group pair = new_group({0, 2});
  EXPECT_EQ(pair.is_member(), rank() != 1);
  if (!pair.is_member()) return;
  const at::Tensor both = at::empty({2, 3});
  all_gather_into_tensor(both, rows(1), {.group = pair});
  barrier({.group = pair});
  EXPECT_EQ(get_world_size(pair), 2);
  // A dry run has met no peer.
  if (backend() == "fake") {
    EXPECT_EQ(wire_traffic(pair).front().sent, 3 * 4);
  }
}

}  // namespace
}  // namespace distrun
