#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_send_recv_all_to_all,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo();
  std::vector<int> peers;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != rank()) peers.push_back(peer);
  }

  std::vector<WorkPtr> works;
  for (const int peer : peers) {
    TensorVector input = {at::full({1}, rank())};
    works.push_back(group->send(input, peer, /*tag=*/0));
  }
  TensorVectors outputs(world_size());
  for (const int peer : peers) {
    outputs[peer] = {at::full({1}, -1)};
    works.push_back(group->recv(outputs[peer], peer, /*tag=*/0));
  }

  for (const auto& work : works) {
    work->wait();
    EXPECT_TRUE(work->isCompleted());
  }
  for (const int peer : peers) EXPECT_TENSORS_EQUAL(outputs[peer][0], at::full({1}, peer));
}

}  // namespace
}  // namespace distrun
