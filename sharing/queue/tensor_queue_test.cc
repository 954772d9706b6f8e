#include "distrun/tensor_queue.h"

#include <thread>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sharing/memory/test/child_process.h"
#include "sharing/queue/queue_item.h"
#include "sharing/queue/test/child_queues.h"

namespace distrun {
namespace {

using testing::ChildProcess;
using ::testing::ContainsRegex;
using testing::error_of;
using testing::kLong;
using testing::open_descriptors;
using testing::receive_queue;
using testing::say;
using testing::send_to;
using ::testing::StartsWith;
using namespace std::chrono_literals;

TEST(TensorQueueTest, ItemsArriveInOrder) {
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

TEST(TensorQueueTest, BothSidesUseTheSameMemory) {
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

TEST(TensorQueueTest, PutTimesOutWhileTheQueueIsFull) {
  const TensorQueue queue(2, "small");
  queue.put(at::ones({1}));
  queue.put(at::ones({1}));
  EXPECT_EQ(error_of<QueueTimeout>([&] { queue.put(at::ones({1}), 20ms); }),
            "put into the queue \"small\": it has been full for 0.02 s, with 2 of 2 items: no "
            "process gets items");
  EXPECT_THROW(queue.put(at::ones({1}), 0ms), QueueTimeout);
  EXPECT_EQ(queue.size(), 2u);
  queue.get();
  queue.put(at::ones({1}), 0ms);
}

TEST(TensorQueueTest, GetTimesOutWhileTheQueueIsEmpty) {
  const TensorQueue queue(2, "empty one");
  EXPECT_EQ(
      error_of<QueueTimeout>([&] { queue.get(20ms); }),
      "get from the queue \"empty one\": it has been empty for 0.02 s: no process puts items");
  EXPECT_THROW(queue.get(0ms), QueueTimeout);
  EXPECT_THROW(queue.get(-5ms), QueueTimeout);
  queue.put(at::ones({1}), TensorQueue::Timeout::max());
  EXPECT_TRUE(at::equal(queue.get(TensorQueue::Timeout::max()).tensors.at(0), at::ones({1})));
}

TEST(TensorQueueTest, WaitingPutGetsAFreedPlace) {
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

TEST(TensorQueueTest, RefusesImpossibleCapacities) {
  EXPECT_EQ(error_of<c10::ValueError>([] { TensorQueue(0); }),
            "make a queue: its capacity is 0, so nothing could be put");
  EXPECT_THAT(error_of<c10::ValueError>([] { TensorQueue(1u << 30); }),
              ContainsRegex("^make a queue: a capacity of 1073741824 is too large, a socket has "
                            "room for [0-9]+ items: use a smaller one, or raise "
                            "net.core.wmem_max$"));
}

TEST(TensorQueueTest, HoldsAsManyItemsAsItsCapacity) {
  const TensorQueue queue(256);
  for (int i = 0; i < 256; ++i) queue.put({{at::full({1}, i)}, std::string(600, 'x')}, 0ms);
  EXPECT_THROW(queue.put(at::ones({1}), 0ms), QueueTimeout);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(queue.get(0ms).tensors.at(0).item<int>(), i);
}

TEST(TensorQueueTest, CarriesLargeItems) {
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

TEST(TensorQueueTest, RefusesTensorsThatCannotBeShared) {
  const TensorQueue queue(2);
  const at::Tensor leaf = at::ones({1}).set_requires_grad(true);
  EXPECT_THROW(queue.put({at::ones({1}), leaf.mul(2)}), c10::ValueError);
  EXPECT_THROW(queue.put({at::Tensor()}), c10::ValueError);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(TensorQueueTest, ThousandItemsLeaveNoDescriptor) {
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

TEST(TensorQueueTest, ReaderCannotPutAndWriterCannotGet) {
  const TensorQueue queue(2, "q");
  const TensorQueue reader = queue.reader(), writer = queue.writer();
  EXPECT_EQ(error_of<c10::ValueError>([&] { reader.put(at::ones({1})); }),
            "put into the queue \"q\": this is its reader()");
  EXPECT_EQ(error_of<c10::ValueError>([&] { writer.get(); }),
            "get from the queue \"q\": this is its writer()");
  EXPECT_EQ(error_of<c10::ValueError>([&] { reader.writer(); }),
            "make a writer of the queue \"q\": this is its reader()");
  EXPECT_EQ(error_of<c10::ValueError>([&] { writer.reader(); }),
            "make a reader of the queue \"q\": this is its writer()");
  writer.put({{}, "x"});
  EXPECT_EQ(reader.get().text, "x");
}

TEST(TensorQueueTest, EndsWhenTheLastWriterIsGone) {
  std::optional<TensorQueue> queue(std::in_place, 2, "q");
  std::optional<TensorQueue> writer = queue->writer();
  const TensorQueue reader = queue->reader();
  queue.reset();
  writer->put({{}, "last"});
  writer.reset();
  EXPECT_EQ(reader.get().text, "last");
  EXPECT_EQ(error_of<QueueEnded>([&] { reader.get(kLong); }),
            "get from the queue \"q\": the queue has ended: no process that can put is left");
}

TEST(TensorQueueTest, EndsWhenTheLastReaderIsGone) {
  const TensorQueue queue(1);
  queue.put({{}, "there was no other holder yet"});
  std::optional<TensorQueue> reader = queue.reader();
  reader->get();
  queue.put({{}, "x"});
  reader.reset();
  EXPECT_EQ(error_of<QueueEnded>([&] {
              queue.put({{}, "y"}, kLong);
            }),
            "put into a queue: the queue has ended: no process that can get is left");
}

TEST(TensorQueueTest, QueueInFlightHasNotEnded) {
  auto sockets = make_packet_sockets().value();
  const TensorQueue queue(1);
  send_to(sockets.first.get(), queue);
  EXPECT_THROW(queue.get(0ms), QueueTimeout);
  receive_queue(sockets.second.get()).put({{}, "x"});
  EXPECT_EQ(queue.get().text, "x");
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

TEST(TensorQueueTest, FileSizeLimitIsAnErrorNotASignal) {
  ChildProcess child([](int) {
    const TensorQueue before(2);
    rlimit limit{8, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const TensorQueue queue(2), reader = queue.reader();
    EXPECT_THAT(error_of<c10::Error>([&] {
                  queue.put({{}, std::string(1000, 'x')});
                }),
                ContainsRegex("^put [0-9]+ bytes: `ulimit -f` allows no more than 8 bytes$"));
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

TEST(TensorQueueTest, ReportsThatNoDescriptorIsLeftForAnItem) {
  const TensorQueue queue(2);
  queue.put({at::ones({1}), at::ones({1})});
  queue.put({{}, "next"});
  ChildProcess child([&](int) {
    const UniqueFd lowest(::dup(STDERR_FILENO));
    rlimit limit{static_cast<rlim_t>(lowest.get()) + 1, 1000};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_THAT(error_of<c10::Error>([&] { queue.get(); }),
                ContainsRegex("^get from a queue; an item is lost: .*ulimit -n"));
    EXPECT_EQ(queue.get().text, "next");
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(child.succeeded());
}

TEST(TensorQueueTest, MovedFromQueueReportsIt) {
  TensorQueue queue(1);
  const TensorQueue other = std::move(queue);
  const auto text = "this TensorQueue has been moved from, and holds no queue";
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.put({{}, "x"}); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.get(); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.reader(); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.writer(); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.size(); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.capacity(); }), text);
  EXPECT_EQ(error_of<c10::ValueError>([&] { queue.name(); }), text);
  other.put({{}, "x"});
}

TEST(TensorQueueTest, RefusesMalformedItemsAndQueues) {
  for (const std::string& bytes :
       {std::string(), std::string("\xff\xff"), std::string(640, '\0')}) {
    Packet packet;
    packet.bytes = bytes;
    EXPECT_THAT(error_of<c10::ValueError>([&] { internal::unpack(std::move(packet)); }),
                StartsWith("get from a queue: the item is malformed: "));
  }
  internal::MessageDescriptors descriptors;
  const TensorQueue queue(1);
  const nlohmann::json fields = internal::hand_over(queue, descriptors);
  std::vector<UniqueFd> received;
  const auto error = [&](const nlohmann::json& message) {
    return error_of<c10::ValueError>([&] { internal::taken_over_queue(message, received); });
  };
  EXPECT_EQ(error(fields), "take a queue over: 0 descriptors are too few");
  EXPECT_THAT(error({{"name", "x"}}), StartsWith("take a queue over: the message is malformed: "));
  for (int i = 0; i < 3; ++i) received.emplace_back(::dup(STDERR_FILENO));
  received.emplace_back(::fcntl(descriptors.all.at(3), F_DUPFD_CLOEXEC, 0));
  const int first = received[0].get();
  EXPECT_EQ(error(fields), c10::str("take a queue over: descriptor ", first,
                                    " and a capacity of 1 are not a queue's"));
}

TEST(TensorQueueTest, RefusesItemsWithWrongDescriptors) {
  const auto error = [](const nlohmann::json& fields, std::vector<UniqueFd> descriptors) {
    Packet packet;
    nlohmann::json::to_cbor(fields, packet.bytes);
    packet.descriptors = std::move(descriptors);
    return error_of<c10::ValueError>([&] { internal::unpack(std::move(packet)); });
  };
  EXPECT_EQ(error({{"content", 0}, {"more", -1}}, {}), "no descriptor 0");
  std::vector<UniqueFd> null;
  null.emplace_back(::open("/dev/null", O_RDONLY));
  const int number = null[0].get();
  EXPECT_EQ(error({{"content", 0}, {"more", -1}}, std::move(null)),
            c10::str("descriptor ", number, " has no content"));
  std::vector<UniqueFd> endless;
  endless.emplace_back(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(endless[0].get(), "\xa0", 1), 1);  // An empty object.
  auto [kept, socket] = make_packet_sockets().value();
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  endless.push_back(std::move(socket));
  EXPECT_EQ(error({{"content", 0}, {"more", 1}}, std::move(endless)),
            "a socket of descriptors has no end");
}

}  // namespace
}  // namespace distrun
