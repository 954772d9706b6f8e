// Sends and receives, alone and in batches.
#include <set>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "backends/group/test/collectives_fixture.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class PointToPointMultirankTest : public CollectivesFixture {};

TEST_F(PointToPointMultirankTest, ReceivesWhatThePeerSends) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const Work sent = isend(input(), next());
  EXPECT_EQ(recv(got, previous()), previous());
  sent.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

TEST_F(PointToPointMultirankTest, ReceiveFromAnyReportsTheSender) {
  if (get_rank() != 0) return send(input(), 0);
  std::vector<bool> seen(static_cast<std::size_t>(get_world_size()));
  for (int i = 1; i < get_world_size(); ++i) {
    const at::Tensor got = at::zeros({2, 3});
    const int from = recv(got);
    ASSERT_GT(from, 0);
    EXPECT_TRUE(got.equal(input_of(from))) << got;
    EXPECT_FALSE(seen[static_cast<std::size_t>(from)]);
    seen[static_cast<std::size_t>(from)] = true;
  }
}

TEST_F(PointToPointMultirankTest, BytesOfAnyLengthArriveFromANamedRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  for (const std::string& text : {std::string("a\0b", 3), std::string(), std::string(70000, 'x')}) {
    std::string got = "old";
    if (get_rank() == 0) send_bytes(text, 1, {.tag = 4});
    if (get_rank() != 1) continue;
    EXPECT_EQ(recv_bytes(got, 0, {.tag = 4}), 0);
    EXPECT_EQ(got, text);
  }
}

TEST_F(PointToPointMultirankTest, BytesFromAnyRankComeWithTheirSender) {
  if (get_rank() != 0) return send_bytes(std::string(1000, 'x') + std::to_string(get_rank()), 0);
  std::set<int> senders;
  for (int i = 1; i < get_world_size(); ++i) {
    std::string got;
    const int from = recv_bytes(got);
    EXPECT_EQ(got, std::string(1000, 'x') + std::to_string(from));
    senders.insert(from);
  }
  EXPECT_EQ(senders.size(), static_cast<std::size_t>(get_world_size() - 1));
}

TEST_F(PointToPointMultirankTest, TagsKeepMessagesApart) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor first = at::zeros({1}), second = at::zeros({1});
  const Work one = isend(at::full({1}, 1.0), next(), {.tag = 1});
  const Work two = isend(at::full({1}, 2.0), next(), {.tag = 2});
  recv(second, previous(), {.tag = 2});
  recv(first, previous(), {.tag = 1});
  one.wait();
  two.wait();
  EXPECT_EQ(first.item<double>(), 1);
  EXPECT_EQ(second.item<double>(), 2);
}

TEST_F(PointToPointMultirankTest, BatchStartsAllOperations) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const auto begun =
      batch_isend_irecv({{.kind = P2POp::Kind::kReceive, .tensor = got, .peer = previous()},
                         {.kind = P2POp::Kind::kSend, .tensor = input(), .peer = next()}});
  EXPECT_EQ(begun.size(), 2u);
  for (const Work& work : begun) work.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

// Too large for socket buffers: if the work were dropped, the rest would never be sent.
TEST_F(PointToPointMultirankTest, MessagesArriveIfTheCallerDropsTheWork) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const auto large = [](int rank) { return at::full({4 << 20}, 1.0 * rank); };
  isend(large(get_rank()), next());
  isend(input(), next());
  const at::Tensor first = at::zeros({4 << 20}), second = at::zeros({2, 3});
  irecv(first, previous());
  recv(second, previous());
  barrier();
  EXPECT_TRUE(first.equal(large(previous())));
  EXPECT_TRUE(second.equal(input_of(previous()))) << second;
}

TEST_F(PointToPointMultirankTest, RejectedBatchStartsNothing) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor got = at::zeros({2, 3});
  const auto batch_with = [&](const P2POp& second) {
    return error_of([&] { batch_isend_irecv({{.tensor = input() + 1, .peer = next()}, second}); });
  };
  EXPECT_THAT(batch_with({.tensor = at::Tensor(), .peer = next()}),
              HasSubstr("is an undefined tensor"));
  EXPECT_THAT(batch_with({.tensor = got, .peer = get_rank()}), HasSubstr("is this rank itself"));
  EXPECT_THAT(batch_with({.tensor = got, .peer = next(), .options = {.tag = -1}}),
              HasSubstr("the tag is -1; expected 0 or more"));
  const Work sent = isend(input(), next());
  recv(got, previous());
  sent.wait();
  EXPECT_TRUE(got.equal(input_of(previous()))) << got;
}

TEST_F(PointToPointMultirankTest, ReceiveUsesTheGroupTimeout) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  if (get_rank() == 0) {
    EXPECT_THAT(MultirankTest::error_of<c10::DistBackendError>(
                    [&] { recv(input(), next(), {.group = group}); }),
                AllOf(HasSubstr("recv on rank 0 in group 1 of ranks 0"),
                      AnyOf(HasSubstr("; rank 1 did not come; see monitored_barrier() and "),
                            HasSubstr(": rank 1 did not send a message with tag 0"))));
  }
  barrier();
}

// The first rank that times out closes the connection, which the other rank may report.
TEST_F(PointToPointMultirankTest, TwoSendsWithoutAReceiveFailAndNameThePeer) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  if (backend() == "shm") GTEST_SKIP() << "shm keeps small messages until they are received";
  const Group group = new_group();
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  if (get_rank() < 2) {
    const int peer = 1 - get_rank();
    const std::string text = MultirankTest::error_of<c10::DistBackendError>(
        [&] { send(input(), peer, {.group = group}); });
    EXPECT_THAT(text, HasSubstr("send on rank " + std::to_string(get_rank()) + " in group "));
    const std::string name = "rank " + std::to_string(peer);
    EXPECT_THAT(text, AnyOf(HasSubstr("; " + name + " waits in send; see monitored_barrier()"),
                            HasSubstr("; " + name + " did not come"),  // Comes much later.
                            HasSubstr("the connection to " + name + " was lost: ")));
  }
  barrier();
}

}  // namespace
}  // namespace distrun
