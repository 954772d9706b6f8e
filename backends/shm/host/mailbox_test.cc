#include "backends/shm/host/mailbox.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/test/threads_as_ranks.h"

namespace distrun::shm {
namespace {

using ::testing::Each;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using Bytes = std::vector<std::byte>;
using Clock = Mailbox::Clock;

// A message and its end.
class Transfer {
 public:
  static Transfer send(HostGroup& group, const Bytes& data, int to, std::uint32_t tag = 0,
                       Clock::time_point deadline = in_time()) {
    Transfer one;
    one.deadline_ = deadline;
    one.message_ = group.mailbox().send(data.data(), data.size(), to, tag, one.done());
    return one;
  }
  static Transfer receive(HostGroup& group, Bytes& data, int from, std::uint32_t tag = 0,
                          Clock::time_point deadline = in_time()) {
    Transfer one;
    one.deadline_ = deadline;
    one.message_ = group.mailbox().receive(data.data(), data.size(), from, tag, one.done());
    return one;
  }

  // Its error, or "".
  std::string wait(HostGroup& group) const {
    group.mailbox().wait(*message_, deadline_);
    end_->is_told.wait();
    if (!end_->error) return "";
    try {
      std::rethrow_exception(end_->error);
    } catch (const HostError& error) {
      return error.what();
    }
  }
  // Without moving anything on this thread.
  void wait_for_others() const { end_->is_told.wait(); }

  int peer() const { return message_->peer(); }

 private:
  struct End {
    std::latch is_told{1};
    std::exception_ptr error;
  };

  Message::Done done() const {
    return [end = end_](const std::exception_ptr& error) {
      end->error = error;
      end->is_told.count_down();
    };
  }

  std::shared_ptr<End> end_ = std::make_shared<End>();
  Mailbox::MessagePtr message_;
  Clock::time_point deadline_;
};

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 253 + seed);
  return all;
}

std::string send(HostGroup& group, const Bytes& data, int to, std::uint32_t tag = 0) {
  return Transfer::send(group, data, to, tag).wait(group);
}

Bytes received(HostGroup& group, std::size_t bytes, int from, std::uint32_t tag = 0) {
  Bytes data(bytes);
  EXPECT_EQ(Transfer::receive(group, data, from, tag).wait(group), "");
  return data;
}

TEST(MailboxTest, MessagesOfAllSizesArrive) {
  const std::size_t sizes[] = {0, 1, 16, 1000, 32768, 262144 - 16, 262144, 262145, 3'000'000};
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    for (const std::size_t size : sizes) {
      if (rank == 0) {
        EXPECT_EQ(send(group, pattern(size, 1), 1), "");
      } else {
        EXPECT_EQ(received(group, size, 0), pattern(size, 1)) << size;
      }
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, RanksThatSendToEachOtherFirstDoNotWaitForever) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    const Bytes mine = pattern(2'000'000, static_cast<unsigned>(rank));
    const auto sent = Transfer::send(group, mine, 1 - rank);
    EXPECT_EQ(received(group, mine.size(), 1 - rank),
              pattern(mine.size(), static_cast<unsigned>(1 - rank)));
    EXPECT_EQ(sent.wait(group), "");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, TheTagSelectsTheMessage) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    if (rank == 0) {
      EXPECT_EQ(send(group, pattern(10, 1), 1, 1), "");
      EXPECT_EQ(send(group, pattern(20, 2), 1, 2), "");
      EXPECT_EQ(send(group, pattern(0, 3), 1, 3), "");
    } else {
      EXPECT_EQ(received(group, 0, 0, 3), pattern(0, 3));
      EXPECT_EQ(received(group, 20, 0, 2), pattern(20, 2));
      EXPECT_EQ(received(group, 10, 0, 1), pattern(10, 1));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, MessagesWithTheSameTagKeepTheirOrder) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    std::vector<Bytes> data;
    std::vector<Transfer> all;
    data.reserve(50);
    for (unsigned i = 0; i < 50; ++i) {
      data.push_back(rank == 0 ? pattern(i * 997, i) : Bytes(i * 997));
      all.push_back(rank == 0 ? Transfer::send(group, data.back(), 1)
                              : Transfer::receive(group, data.back(), 0));
    }
    for (unsigned i = 50; i-- > 0;) {
      EXPECT_EQ(all[i].wait(group), "");
      EXPECT_EQ(data[i], pattern(i * 997, i)) << i;
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AReceiveFromAnyRankNamesTheSender) {
  const auto errors = run_as_ranks(4, [](HostGroup& group, int rank) {
    if (rank != 2) {
      EXPECT_EQ(send(group, pattern(100, static_cast<unsigned>(rank)), 2), "");
      return;
    }
    std::vector<int> senders;
    for (int i = 0; i < 3; ++i) {
      Bytes data(100);
      const auto one = Transfer::receive(group, data, kAnyRank);
      EXPECT_EQ(one.wait(group), "");
      EXPECT_EQ(data, pattern(100, static_cast<unsigned>(one.peer())));
      senders.push_back(one.peer());
    }
    EXPECT_THAT(senders, ::testing::UnorderedElementsAre(0, 1, 3));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AMessageMovesWhileNoThreadWaitsForIt) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    Bytes data = rank == 0 ? pattern(5'000'000, 1) : Bytes(5'000'000);
    const auto one = rank == 0 ? Transfer::send(group, data, 1) : Transfer::receive(group, data, 0);
    one.wait_for_others();
    EXPECT_EQ(data, pattern(data.size(), 1));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, WhatASenderSentBeforeItLeftArrives) {
  std::latch left(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      EXPECT_EQ(send(group, pattern(1000, 1), 1), "");
      left.count_down();
    } else {
      left.wait();
      EXPECT_EQ(received(group, 1000, 0), pattern(1000, 1));
      Bytes more(8);
      EXPECT_EQ(Transfer::receive(group, more, 0).wait(group), "rank 0 has left the group");
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    if (rank == 0) {
      EXPECT_EQ(send(group, pattern(1000, 1), 1, 5), "");
      EXPECT_EQ(send(group, pattern(1000, 2), 1, 5), "");
    } else {
      Bytes small(10);
      EXPECT_EQ(Transfer::receive(group, small, 0, 5).wait(group),
                "the message from rank 0 with tag 5 has 1000 bytes, but the tensor that receives "
                "it has 10");
      EXPECT_EQ(received(group, 1000, 0, 5), pattern(1000, 2));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, TimeOutsSayWhatDidNotHappen) {
  std::latch failed(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      Bytes data(8);
      const auto soon = Clock::now() + std::chrono::milliseconds(100);
      EXPECT_THAT(
          Transfer::receive(group, data, 1, 7, soon).wait(group),
          MatchesRegex("timed out after [0-9]+ms: rank 1 did not send a message with tag 7"));
      failed.count_down();
    } else {
      failed.wait();
      Bytes data(8);
      EXPECT_THAT(Transfer::receive(group, data, 0).wait(group),
                  StartsWith("a call failed on rank 0: timed out after "));
    }
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AReceiveFromAnyRankTimesOut) {
  std::latch failed(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      Bytes data(8);
      const auto soon = Clock::now() + std::chrono::milliseconds(100);
      EXPECT_THAT(Transfer::receive(group, data, kAnyRank, 7, soon).wait(group),
                  MatchesRegex("timed out after [0-9]+ms: no rank sent a message with tag 7"));
      failed.count_down();
    }
    failed.wait();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AReceiveEndsWithItsGroup) {
  Bytes data(8);
  std::string error;
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return;
    group.mailbox().receive(data.data(), data.size(), 1, 0, [&](const std::exception_ptr& its) {
      try {
        std::rethrow_exception(its);
      } catch (const HostError& why) {
        error = why.what();
      }
    });
  });
  EXPECT_THAT(errors, Each(""));
  EXPECT_THAT(error, ::testing::AnyOf("the group has been destroyed", "rank 1 has left the group"));
}

TEST(MailboxTest, ASendWithoutAReceiveTimesOut) {
  std::latch failed(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      const auto soon = Clock::now() + std::chrono::milliseconds(100);
      const Bytes data(5'000'000);
      // Rank 1 takes what fits, and no more.
      EXPECT_THAT(Transfer::send(group, data, 1, 7, soon).wait(group),
                  MatchesRegex("timed out after [0-9]+ms: rank 1 did not receive a message with "
                               "tag 7"));
      failed.count_down();
    }
    failed.wait();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AbortEndsAWait) {
  std::latch aborted(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      aborted.wait();
      return;
    }
    Bytes data(8);
    const auto one = Transfer::receive(group, data, 1);
    std::thread other([&] { group.abort(); });
    EXPECT_EQ(one.wait(group), "the group has been aborted");
    other.join();
    aborted.count_down();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AReceiveFromAnyRankEndsWhenAllPeersHaveLeft) {
  const auto errors = run_as_ranks(3, [](HostGroup& group, int rank) {
    if (rank != 0) return;
    Bytes data(8);
    EXPECT_THAT(Transfer::receive(group, data, kAnyRank).wait(group),
                MatchesRegex("rank [12] has left the group"));
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(MailboxTest, AMessageForWhichNoThreadWaitsHasNoDeadline) {
  std::latch timed_out(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      Bytes data(8);
      const auto past = Clock::now() - std::chrono::seconds(1);
      const auto one = Transfer::receive(group, data, 1, 0, past);
      timed_out.count_down();
      one.wait_for_others();
      EXPECT_EQ(data, pattern(8, 1));
    } else {
      timed_out.wait();
      EXPECT_EQ(send(group, pattern(8, 1), 0), "");
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// Several threads of each rank send and receive what a seed says.
TEST(MailboxTest, ThreadsOfAllRanksExchangeRandomMessages) {
  constexpr int kRanks = 3, kThreads = 3, kMessages = 150;
  const auto errors = run_as_ranks(kRanks, [&](HostGroup& group, int rank) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(thread));
        for (unsigned i = 0; i < kMessages; ++i) {
          const int from = static_cast<int>(random() % kRanks);
          const int to = (from + 1 + static_cast<int>(random() % (kRanks - 1))) % kRanks;
          const std::size_t size = random() % 8 == 0 ? random() % 600'000 : random() % 3000;
          const auto tag = static_cast<std::uint32_t>(thread);
          if (rank == from) {
            EXPECT_EQ(send(group, pattern(size, i), to, tag), "");
          } else if (rank == to) {
            EXPECT_EQ(received(group, size, from, tag), pattern(size, i));
          }
        }
      });
    }
    for (std::thread& each : threads) each.join();
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace distrun::shm
