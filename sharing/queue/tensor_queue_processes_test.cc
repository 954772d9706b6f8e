// Queues between processes, some of which are killed or stopped.
#include <map>
#include <random>
#include <thread>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distrun/tensor_queue.h"
#include "sharing/memory/test/child_process.h"
#include "sharing/queue/queue_holder.h"
#include "sharing/queue/test/child_queues.h"

namespace distrun {
namespace {

using testing::ChildProcess;
using testing::error_of;
using testing::kLong;
using testing::open_descriptors;
using testing::receive_queue;
using testing::say;
using testing::send_to;
using namespace std::chrono_literals;

// PyTorch's multiprocessing tests use queues like this.
TEST(TensorQueueProcessesTest, CarriesResultsOneWayAndAnswersTheOther) {
  const TensorQueue to_parent(4, "c2p"), to_child(4, "p2c");
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(std::make_unique<ChildProcess>([rank](int socket) {
      const TensorQueue results = receive_queue(socket), answers = receive_queue(socket);
      results.put({{at::full({2}, rank), at::ones({2})}, std::to_string(rank)});
      return answers.get(kLong).text == "done";
    }));
    send_to(children.back()->socket(), to_parent);
    send_to(children.back()->socket(), to_child);
  }
  for (int i = 0; i < 2; ++i) {
    const auto item = to_parent.get(kLong);
    EXPECT_TRUE(at::equal(item.tensors.at(0), at::full({2}, std::stoi(item.text))));
  }
  for (int i = 0; i < 2; ++i) to_child.put({{}, "done"});
  for (auto& child : children) EXPECT_TRUE(child->succeeded());
  EXPECT_THROW(to_parent.get(kLong), QueueEnded);
}

TEST(TensorQueueProcessesTest, GetReturnsRemainingItemsAndEndsAfterAllChildrenAreKilled) {
  const TensorQueue queue(4);
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(std::make_unique<ChildProcess>([&](int socket) {
      queue.put(at::full({1}, 3));
      say(socket);
      return receive_packet(socket).value().has_ended;
    }));
  }
  for (auto& child : children) child->wait_for_word();
  std::thread killer([&] {
    for (auto& child : children) child->kill();
  });
  EXPECT_EQ(queue.get(kLong).tensors.at(0).item<int>(), 3);
  EXPECT_EQ(queue.get(kLong).tensors.at(0).item<int>(), 3);
  EXPECT_THROW(queue.get(kLong), QueueEnded);
  killer.join();
  EXPECT_THROW(queue.put({{}, "x"}, kLong), QueueEnded);
}

TEST(TensorQueueProcessesTest, ReadersEndWhenTheParentIsKilled) {
  // Forked before the queue exists, so that it holds only what it receives.
  auto sockets = make_packet_sockets().value();
  ChildProcess reader([&](int socket) {
    const TensorQueue queue = receive_queue(sockets.second.get());
    say(socket);
    queue.get(kLong);
    say(socket);
    try {
      queue.get(kLong);
    } catch (const QueueEnded&) {
      return true;
    }
    return false;
  });
  ChildProcess parent([&](int socket) {
    const TensorQueue queue(2);
    send_to(sockets.first.get(), queue.reader());
    queue.put({{}, "x"});
    return receive_packet(socket).value().has_ended;
  });
  reader.wait_for_word();
  reader.wait_for_word();
  parent.kill();
  EXPECT_TRUE(reader.succeeded());
}

TEST(TensorQueueProcessesTest, PutEndsWhenAllReadersAreKilled) {
  const TensorQueue queue(1);
  ChildProcess child([&](int socket) {
    queue.get();
    say(socket);
    return receive_packet(socket).value().has_ended;
  });
  queue.put({{}, "x"});
  child.wait_for_word();
  queue.put({{}, "y"});
  std::thread killer([&] { child.kill(); });
  EXPECT_THROW(queue.put({{}, "z"}, kLong), QueueEnded);
  killer.join();
}

TEST(TensorQueueProcessesTest, ForkedChildIsAHolderBeforeItUsesTheQueue) {
  const TensorQueue queue(2);
  {
    ChildProcess child([&](int socket) {
      say(socket);
      return receive_packet(socket).value().bytes == "x";
    });
    child.wait_for_word();
    EXPECT_THROW(queue.get(0ms), QueueTimeout);
    say(child.socket());
    EXPECT_TRUE(child.succeeded());
  }
  EXPECT_THROW(queue.get(kLong), QueueEnded);
}

TEST(TensorQueueProcessesTest, ManyProcessesNeverExceedTheCapacity) {
  const TensorQueue queue(2);
  constexpr int kProducers = 4, kItems = 300;
  std::vector<std::unique_ptr<ChildProcess>> producers;
  for (int i = 0; i < kProducers; ++i) {
    producers.push_back(std::make_unique<ChildProcess>([&](int) {
      for (int item = 0; item < kItems; ++item) queue.put({{}, std::to_string(item)}, kLong);
      return true;
    }));
  }
  std::map<std::string, int> counts;
  for (int i = 0; i < kProducers * kItems; ++i) {
    EXPECT_LE(queue.size(), 2u);
    ++counts[queue.get(kLong).text];
  }
  EXPECT_EQ(counts.size(), static_cast<std::size_t>(kItems));
  for (const auto& [text, count] : counts) EXPECT_EQ(count, kProducers) << text;
  for (auto& producer : producers) EXPECT_TRUE(producer->succeeded());
}

// Holds the put lock until the parent sends a byte.
bool hold_up(const TensorQueue& queue, int socket) {
  const internal::HolderPresence& own = internal::TensorQueueAccess::holder(queue).parts().presence;
  const bool is_held = own.try_lock_put();
  say(socket);
  const bool is_told = !receive_packet(socket).value().has_ended;
  own.unlock_put();
  return is_held && is_told;
}

TEST(TensorQueueProcessesTest, PutWaitsForAnotherPut) {
  const TensorQueue queue(1, "q"), reader = queue.reader();
  ChildProcess child([&](int socket) { return hold_up(queue, socket); });
  child.wait_for_word();
  EXPECT_THROW(queue.put({{}, "x"}, 20ms), QueueTimeout);
  EXPECT_EQ(queue.size(), 0u);
  say(child.socket());
  queue.put({{}, "x"}, kLong);
  EXPECT_EQ(queue.get(0ms).text, "x");
  EXPECT_TRUE(child.succeeded());
}

TEST(TensorQueueProcessesTest, ProcessStoppedDuringAPutBlocksNeitherPutsNorForks) {
  const TensorQueue queue(1, "q"), reader = queue.reader();
  ChildProcess stopped([&](int socket) { return hold_up(queue, socket); });
  stopped.wait_for_word();
  ::kill(stopped.pid(), SIGSTOP);
  EXPECT_EQ(error_of<QueueTimeout>([&] {
              queue.put({{}, "x"}, 0ms);
            }),
            "put into the queue \"q\": after 0 s another process is still putting: is it stopped?");
  std::thread putter([&] { EXPECT_THROW(queue.put({{}, "x"}, 300ms), QueueTimeout); });
  ChildProcess other([&](int) {
    EXPECT_THROW(queue.get(0ms), QueueTimeout);
    EXPECT_THROW(queue.put({{}, "x"}, 20ms), QueueTimeout);
    return !HasFailure();
  });
  EXPECT_TRUE(other.succeeded());
  putter.join();
  stopped.kill();
  queue.put({{}, "x"}, 0ms);
}

// Children put and get forever, and are killed at random moments.
void kill_in_the_middle(unsigned seed) {
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TensorQueue queue(1 + random() % 3);
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<ChildProcess>([&queue, i](int) -> bool {
      for (;;) {
        if (i % 2 == 0) queue.put({{at::full({2}, 6)}, std::string(200, 'x')}, kLong);
        if (i % 2 == 1) queue.get(kLong);
      }
    }));
  }
  while (!children.empty()) {
    for (auto passes = random() % 20; passes > 0; --passes) {
      try {
        const auto item = queue.get(1ms);
        ASSERT_EQ(item.text, std::string(200, 'x'));
        ASSERT_EQ(item.tensors.at(0).sum().item<int>(), 12);
      } catch (const QueueTimeout&) {
      }
    }
    children.erase(children.begin() + static_cast<std::ptrdiff_t>(random() % children.size()));
  }
  const TensorQueue other = queue.reader();
  while (queue.size() > 0) queue.get(0ms);
  for (std::size_t i = 0; i < queue.capacity(); ++i) queue.put({{}, "x"}, 0ms);
  EXPECT_THROW(queue.put({{}, "x"}, 0ms), QueueTimeout);
  for (std::size_t i = 0; i < queue.capacity(); ++i) EXPECT_EQ(other.get(0ms).text, "x");
}

TEST(TensorQueueProcessesTest, QueueSurvivesKilledProcesses) {
  const auto before = open_descriptors();
  for (unsigned seed = 1; seed <= 40 && !HasFailure(); ++seed) kill_in_the_middle(seed);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace distrun
