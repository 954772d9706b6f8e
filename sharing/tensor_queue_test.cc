#include "sharing/tensor_queue.h"

#include <map>
#include <random>
#include <thread>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "sharing/queue_holder.h"
#include "sharing/queue_item.h"
#include "sharing/sharing_testing.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using testing::ChildProcess;
using testing::error_of;
using ::testing::HasSubstr;
using testing::open_descriptors;
using testing::receive_queue;
using testing::say;
using testing::send_to;
using namespace std::chrono_literals;

// Longer than anything here takes: what ends by it is too late.
constexpr auto kLong = std::chrono::seconds(50);

TEST(TensorQueueTest, ItemsComeInTheirOrder) {
  const TensorQueue queue(3, "results");
  EXPECT_EQ(queue.name(), "results");
  EXPECT_EQ(queue.capacity(), 3u);
  queue.put(at::ones({2}));
  queue.put({at::zeros({2}), at::ones({3})});
  queue.put({{}, std::string("any\0\xff", 5)});
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_TRUE(at::equal(queue.get().tensors.at(0), at::ones({2})));
  EXPECT_TRUE(at::equal(queue.get().tensors.at(1), at::ones({3})));
  const auto last = queue.get();
  EXPECT_TRUE(last.tensors.empty());
  EXPECT_EQ(last.text, std::string("any\0\xff", 5));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TensorQueueTest, MemoryIsTheSameOnBothSides) {
  const TensorQueue queue(1);
  const at::Tensor tensor = at::zeros({3});
  ChildProcess child([&](int) {
    queue.get().tensors.at(0).fill_(5);
    return true;
  });
  queue.put(tensor);
  ASSERT_TRUE(child.succeeded());
  EXPECT_TRUE(at::equal(tensor, at::full({3}, 5.0f)));
}

TEST(TensorQueueTest, AFullQueueTimesOutAndTakesAgainWhenThereIsAPlace) {
  const TensorQueue queue(2, "small");
  queue.put(at::ones({1}));
  queue.put(at::ones({1}));
  EXPECT_THAT(error_of<QueueTimeout>([&] { queue.put(at::ones({1}), 20ms); }),
              AllOf(HasSubstr("\"small\""), HasSubstr("0.02 s"), HasSubstr("2 items of 2")));
  EXPECT_THROW(queue.put(at::ones({1}), 0ms), QueueTimeout);
  EXPECT_EQ(queue.size(), 2u);
  queue.get();
  queue.put(at::ones({1}), 0ms);
}

TEST(TensorQueueTest, AnEmptyQueueTimesOut) {
  const TensorQueue queue(2, "empty one");
  EXPECT_THAT(error_of<QueueTimeout>([&] { queue.get(20ms); }),
              AllOf(HasSubstr("\"empty one\""), HasSubstr("0.02 s")));
  EXPECT_THROW(queue.get(0ms), QueueTimeout);
  EXPECT_THROW(queue.get(-5ms), QueueTimeout);
  queue.put(at::ones({1}), TensorQueue::Timeout::max());
  EXPECT_TRUE(at::equal(queue.get(TensorQueue::Timeout::max()).tensors.at(0), at::ones({1})));
}

TEST(TensorQueueTest, WhoWaitsForAPlaceGetsIt) {
  const TensorQueue queue(1);
  ChildProcess child([&](int socket) {
    queue.put({{}, "first"});
    say(socket);
    queue.put({{}, "second"}, kLong);
    return true;
  });
  child.wait_for_word();
  EXPECT_EQ(queue.get().text, "first");
  EXPECT_EQ(queue.get().text, "second");
  EXPECT_TRUE(child.succeeded());
}

TEST(TensorQueueTest, CapacitiesThatAreNoneAreErrors) {
  EXPECT_THAT(error_of<c10::ValueError>([] { TensorQueue(0); }), HasSubstr("capacity is 0"));
  EXPECT_THAT(error_of<c10::ValueError>([] { TensorQueue(1u << 30); }),
              HasSubstr("net.core.wmem_max"));
}

TEST(TensorQueueTest, ALargeCapacityIsThere) {
  const TensorQueue queue(256);
  for (int i = 0; i < 256; ++i) queue.put({{at::full({1}, i)}, std::string(600, 'x')}, 0ms);
  EXPECT_THROW(queue.put(at::ones({1}), 0ms), QueueTimeout);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(queue.get(0ms).tensors.at(0).item<int>(), i);
}

TEST(TensorQueueTest, AnItemMayBeLarge) {
  const TensorQueue queue(2);
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 500; ++i) tensors.push_back(at::full({2}, i));
  std::string text(3'000'000, 'x');
  text.back() = 'y';
  for (const std::size_t count : {1, 10, 63, 64, 65, 128, 129, 500}) {
    SCOPED_TRACE(count);
    queue.put({{tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(count)}, text});
    const auto item = queue.get(0ms);
    EXPECT_EQ(item.text, text);
    ASSERT_EQ(item.tensors.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(item.tensors[i][1].item<float>(), static_cast<float>(i));
    }
  }
}

TEST(TensorQueueTest, WhatCannotBeSharedIsNotPut) {
  const TensorQueue queue(2);
  const at::Tensor leaf = at::ones({1}).set_requires_grad(true);
  EXPECT_THROW(queue.put({at::ones({1}), leaf.mul(2)}), c10::ValueError);
  EXPECT_THROW(queue.put({at::Tensor()}), c10::ValueError);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TensorQueueTest, AThousandItemsLeaveNoDescriptor) {
  const auto before = open_descriptors();
  {
    const TensorQueue queue(4);
    for (int i = 0; i < 1000; ++i) {
      queue.put({{at::full({2}, i)}, i % 10 == 0 ? std::string(1000, 'x') : "x"});
      ASSERT_EQ(queue.get().tensors.at(0)[0].item<int>(), i);
    }
    EXPECT_EQ(open_descriptors(), before + 4);
    queue.put(at::ones({2}));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TensorQueueTest, EndsDoOneThing) {
  const TensorQueue queue(2, "q");
  const TensorQueue reader = queue.reader(), writer = queue.writer();
  EXPECT_THAT(error_of<c10::ValueError>([&] { reader.put(at::ones({1})); }), HasSubstr("reader()"));
  EXPECT_THAT(error_of<c10::ValueError>([&] { writer.get(); }), HasSubstr("writer()"));
  EXPECT_THROW(reader.writer(), c10::ValueError);
  EXPECT_THROW(writer.reader(), c10::ValueError);
  writer.put({{}, "x"});
  EXPECT_EQ(reader.get().text, "x");
}

TEST(TensorQueueTest, AQueueEndsWhenTheLastWriterIsGone) {
  std::optional<TensorQueue> queue(std::in_place, 2, "q");
  std::optional<TensorQueue> writer = queue->writer();
  const TensorQueue reader = queue->reader();
  queue.reset();
  writer->put({{}, "last"});
  writer.reset();
  EXPECT_EQ(reader.get().text, "last");
  EXPECT_THAT(error_of<QueueEnded>([&] { reader.get(kLong); }),
              AllOf(HasSubstr("\"q\""), HasSubstr("no process that could put is left")));
}

TEST(TensorQueueTest, AQueueEndsWhenTheLastReaderIsGone) {
  const TensorQueue queue(1);
  queue.put({{}, "nobody else was there yet"});
  std::optional<TensorQueue> reader = queue.reader();
  reader->get();
  queue.put({{}, "x"});
  reader.reset();
  EXPECT_THAT(error_of<QueueEnded>([&] {
                queue.put({{}, "y"}, kLong);
              }),
              HasSubstr("no process that could get is left"));
}

TEST(TensorQueueTest, AQueueOnItsWayHasNotEnded) {
  auto sockets = make_packet_sockets().value();
  const TensorQueue queue(1);
  send_to(sockets.first.get(), queue);
  EXPECT_THROW(queue.get(0ms), QueueTimeout);
  receive_queue(sockets.second.get()).put({{}, "x"});
  EXPECT_EQ(queue.get().text, "x");
  EXPECT_THROW(queue.get(kLong), QueueEnded);
}

// As PyTorch's tests of multiprocessing use them: results go one way, and an answer the other.
TEST(TensorQueueTest, ResultsAndAnswersBetweenProcesses) {
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

TEST(TensorQueueTest, WhenAllChildrenAreKilledGetTakesWhatIsThereAndEnds) {
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

TEST(TensorQueueTest, WhenTheParentIsKilledItsReadersEnd) {
  // A child that is there before the queue, so that it has no part of it but what it is given.
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

TEST(TensorQueueTest, WhoWaitsForAPlaceIsToldThatReadersWereKilled) {
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

TEST(TensorQueueTest, AForkedChildIsAHolderBeforeItUsesTheQueue) {
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

TEST(TensorQueueTest, ThreadsShareOneQueue) {
  const TensorQueue queue(3);
  constexpr int kThreads = 4, kItems = 250;
  std::atomic<int> sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int item = 0; item < kItems; ++item) queue.put(at::full({1}, i * kItems + item));
    });
    threads.emplace_back([&] {
      for (int item = 0; item < kItems; ++item) {
        sum += queue.get().tensors.at(0).item<int>();
        EXPECT_LE(queue.size(), 3u);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, kThreads * kItems * (kThreads * kItems - 1) / 2);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TensorQueueTest, ManyProcessesNeverPutMoreThanThereIsRoomFor) {
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

// A child that is putting, until it is told to end that.
bool hold_up(const TensorQueue& queue, int socket) {
  const internal::Presence& own = queue.holder().parts().presence;
  const bool is_held = own.try_lock_put();
  say(socket);
  const bool is_told = !receive_packet(socket).value().has_ended;
  own.unlock_put();
  return is_held && is_told;
}

TEST(TensorQueueTest, WhoPutsWaitsForWhoIsPutting) {
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

TEST(TensorQueueTest, WhoIsStoppedWhilePuttingHoldsUpNeitherPutsNorForks) {
  const TensorQueue queue(1, "q"), reader = queue.reader();
  ChildProcess stopped([&](int socket) { return hold_up(queue, socket); });
  stopped.wait_for_word();
  ::kill(stopped.pid(), SIGSTOP);
  EXPECT_THAT(error_of<QueueTimeout>([&] {
                queue.put({{}, "x"}, 0ms);
              }),
              AllOf(HasSubstr("\"q\""), HasSubstr("somebody is putting")));
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

// Children put and get for ever; each is killed at a moment of its own.
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

TEST(TensorQueueTest, KilledProcessesLeaveTheQueueWhole) {
  const auto before = open_descriptors();
  for (unsigned seed = 1; seed <= 40 && !HasFailure(); ++seed) kill_in_the_middle(seed);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TensorQueueTest, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  ChildProcess child([](int) {
    const TensorQueue before(2);
    rlimit limit{8, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const TensorQueue queue(2), reader = queue.reader();
    EXPECT_THAT(error_of<c10::Error>([&] {
                  queue.put({{}, std::string(1000, 'x')});
                }),
                HasSubstr("`ulimit -f` allows no more than 8"));
    queue.put({{}, "x"});
    EXPECT_EQ(reader.get().text, "x");
    ChildProcess forked([&](int) {
      before.put({{}, "y"});
      return true;
    });
    EXPECT_TRUE(forked.succeeded());
    EXPECT_EQ(before.get().text, "y");
    return !HasFailure();
  });
  EXPECT_TRUE(child.succeeded());
}

TEST(TensorQueueTest, AnItemForWhichThereIsNoDescriptorIsAnErrorThatSaysSo) {
  const TensorQueue queue(2);
  queue.put({at::ones({1}), at::ones({1})});
  queue.put({{}, "next"});
  ChildProcess child([&](int) {
    const UniqueFd lowest(::dup(STDERR_FILENO));
    rlimit limit{static_cast<rlim_t>(lowest.get()) + 1, 1000};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_THAT(error_of<c10::Error>([&] { queue.get(); }), HasSubstr("ulimit -n"));
    EXPECT_EQ(queue.get().text, "next");
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(child.succeeded());
}

TEST(TensorQueueTest, MalformedItemsAndQueuesAreErrors) {
  for (const std::string& bytes : {std::string(), std::string("\xff\xff"), std::string(640, '\0'),
                                   std::string("\xa1gcontent\x05", 10)}) {
    Packet packet;
    packet.bytes = bytes;
    EXPECT_THROW(internal::unpack(std::move(packet)), c10::ValueError);
  }
  internal::Descriptors descriptors;
  const TensorQueue queue(1);
  const nlohmann::json fields = internal::hand_over(queue, descriptors);
  std::vector<UniqueFd> received;
  EXPECT_THROW(internal::taken_over_queue(fields, received), c10::ValueError);
  EXPECT_THROW(internal::taken_over_queue({{"name", "x"}}, received), c10::ValueError);
  for (int i = 0; i < 4; ++i) received.emplace_back(::dup(STDERR_FILENO));
  EXPECT_THROW(internal::taken_over_queue(fields, received), c10::ValueError);
}

}  // namespace
}  // namespace distrun
