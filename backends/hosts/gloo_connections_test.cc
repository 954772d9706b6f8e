#include "backends/hosts/gloo_connections.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <string>
#include <vector>

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/gloo/gloo.h"

namespace distrun::hosts {
namespace {

using ::testing::HasSubstr;
using Backends = std::vector<c10::intrusive_ptr<c10d::Backend>>;

Backends connected(int ranks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::future<c10::intrusive_ptr<c10d::Backend>>> made;
  for (int rank = 0; rank < ranks; ++rank) {
    BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("gloo", store)};
    request.rank = rank;
    request.size = ranks;
    request.timeout = std::chrono::seconds(60);
    for (int each = 0; each < ranks; ++each) request.ranks.push_back(each);
    made.push_back(std::async(std::launch::async, [=] { return make_gloo_backend(request); }));
  }
  Backends all;
  for (auto& each : made) all.push_back(each.get());
  return all;
}

// A receive for which nothing comes.
std::string error_of_receive(c10d::Backend& backend, int from, int tag) {
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  try {
    backend.recv(tensors, from, tag)->wait();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(GlooConnectionsTest, ClosingEndsReceivesFromAllRanks) {
  const Backends all = connected(3);
  std::vector<std::future<std::string>> errors;
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  const auto from_1 = all[0]->recv(tensors, 1, 0), from_2 = all[0]->recv(tensors, 2, 0);
  close_connections(*all[0]);
  EXPECT_ANY_THROW(from_1->wait());
  EXPECT_ANY_THROW(from_2->wait());
  close_connections(*all[0]);  // Does nothing more.
  EXPECT_THAT(error_of_receive(*all[1], 0, 0), HasSubstr("closed by peer"));
}

TEST(GlooConnectionsTest, ClosingGoesOnAfterALostConnection) {
  const Backends all = connected(3);
  all[1]->abort();
  error_of_receive(*all[0], 1, 0);
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  const auto from_2 = all[0]->recv(tensors, 2, 0);
  close_connections(*all[0]);
  EXPECT_ANY_THROW(from_2->wait());
}

TEST(GlooConnectionsTest, EachConnectionOfARankIsClosed) {
  ::setenv("GLOO_SOCKET_IFNAME", "lo,lo", 1);
  const Backends all = connected(2);
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  const auto even = all[0]->recv(tensors, 1, 0), odd = all[0]->recv(tensors, 1, 1);
  close_connections(*all[0]);
  ::unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_ANY_THROW(even->wait());
  EXPECT_ANY_THROW(odd->wait());
}

TEST(GlooConnectionsTest, TheLostPeerIsFound) {
  const Backends all = connected(3);
  all[2]->abort();
  const std::string error = error_of_receive(*all[0], 2, 0);
  EXPECT_EQ(lost_peer(*all[0], error), 2);
  EXPECT_EQ(lost_peer(*all[0], "another error"), std::nullopt);
}

}  // namespace
}  // namespace distrun::hosts
