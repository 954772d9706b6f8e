#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/host_group.h"
#include "backends/shm/host/test/host_collectives_fixture.h"

namespace distrun::shm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

TEST(HostErrorsTest, DifferentCallsAreAnErrorOnAllRanks) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes data(8);
      if (rank == 0) {
        all.broadcast(data.data(), data.size(), 1, watch);
      } else {
        all.all_reduce(data.data(), 2, {Element::kFloat32, Reduction::kMax}, watch);
      }
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("the ranks make different calls: rank "),
                                 HasSubstr("broadcast of 8 bytes, root 1"),
                                 HasSubstr("all_reduce of 8 bytes of float with MAX"))));
}

// Rank 1 does not come.
TEST(HostErrorsTest, ProlongedWaitsDoNotAddUp) {
  std::promise<void> is_over;
  const auto over = is_over.get_future().share();
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return over.wait();
    const auto begin = HostGroup::Clock::now();
    try {
      group.run(begin + std::chrono::milliseconds(100), [&](Collectives& all, Watch& watch) {
        for (int time = 0; time < 1000; ++time) watch.prolong(std::chrono::milliseconds(100));
        all.barrier(watch);
      });
    } catch (const HostError&) {
      EXPECT_LT(HostGroup::Clock::now() - begin, std::chrono::seconds(30));
      is_over.set_value();
      throw;
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1 did not come"));
}

// Longer than the time-out.
TEST(HostErrorsTest, AWaitForARankThatMovesOnDoesNotTimeOut) {
  constexpr std::chrono::milliseconds kTimeout(1000);
  bool has_moved_on = false;
  const auto errors = run_as_ranks(1, [&](HostGroup& group, int) {
    group.run(kTimeout, [&](Collectives&, Watch& watch) {
      const auto begin = HostGroup::Clock::now();
      while (HostGroup::Clock::now() < begin + 2 * kTimeout) {
        watch.advances();
        watch.check(0);
      }
      has_moved_on = true;
      for (;;) watch.check(0);
    });
  });
  EXPECT_TRUE(has_moved_on);
  EXPECT_THAT(errors, Each(HasSubstr("timed out after ")));
}

// Rank 1 is behind the root, and rank 2 calls nothing.
TEST(HostErrorsTest, ATimeOutNamesOnlyTheRankForWhichARootThatIsAheadWaits) {
  std::latch is_over(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    Bytes data(8);
    const int calls = rank == 0 ? 2 * static_cast<int>(kCells) : rank == 1 ? 50 : 0;
    try {
      for (int call = 0; call < calls; ++call) {
        group.run(std::chrono::milliseconds(300), [&](Collectives& all, Watch& watch) {
          all.broadcast(data.data(), data.size(), 0, watch);
        });
      }
    } catch (const HostError&) {
      is_over.count_down();
      throw;
    }
    is_over.wait();
  });
  EXPECT_THAT(errors[0], EndsWith(": rank 2 did not come"));
}

// A call of several collectives compares itself first.
TEST(HostErrorsTest, ComparedCallsMayDifferInTheirReductionOnly) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run_on_host(in_time(), [&](HostCollectives& all, Watch& watch) {
      const auto reduction = rank == 0 ? Reduction::kSum : Reduction::kAverage;
      all.compare(CallKind::kReduce, 2, {Element::kFloat32, reduction}, 1, watch);
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("reduce of 8 bytes of float with SUM, root 1"),
                                 HasSubstr("reduce of 8 bytes of float with AVG, root 1"))));
}

TEST(HostErrorsTest, DifferentSizesAreAnErrorOnAllRanks) {
  const auto errors = run_as_ranks(3, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes data(rank == 1 ? 2'000'000 : 4'000'000);
      all.broadcast(data.data(), data.size(), 0, watch);
    });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("4000000 bytes"), HasSubstr("2000000 bytes"))));
}

// Rank 1 calls only when the root's call has ended.
TEST(HostErrorsTest, ABroadcastsRootDoesNotWaitAndLearnsLaterThatCallsDiffer) {
  std::latch has_sent(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes data(8);
    if (rank == 1) has_sent.wait();
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      if (rank == 0) all.broadcast(data.data(), data.size(), 0, watch);
      if (rank == 1) all.barrier(watch);
    });
    has_sent.count_down();
    group.run(in_time(), [](Collectives& all, Watch& watch) { all.barrier(watch); });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("call 2, barrier"), HasSubstr("call 2, broadcast"))));
}

// The second one sees the other's call, also if no call follows.
TEST(HostErrorsTest, TwoRanksThatBelieveToBeTheRootOfABroadcastDiffer) {
  std::latch has_sent(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes data(8);
    if (rank == 1) has_sent.wait();
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      all.broadcast(data.data(), data.size(), rank, watch);
    });
    has_sent.count_down();
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_THAT(errors[1], AllOf(HasSubstr("root 0"), HasSubstr("root 1")));
}

TEST(HostErrorsTest, ALateRootFindsAnotherThatIsManyCallsAhead) {
  std::latch has_sent(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes data(8);
    if (rank == 0) has_sent.wait();
    for (int call = 0; call < (rank == 0 ? 1 : 10); ++call) {
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), data.size(), rank, watch);
      });
    }
    has_sent.count_down();
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("root 0"), HasSubstr("root 1")));
  EXPECT_EQ(errors[1], "");
}

// Each looks for the other after it has published its own call.
TEST(HostErrorsTest, OfTwoRootsAtTheSameTimeOneFindsTheOther) {
  for (int times = 0; times < 100; ++times) {
    std::barrier together(2);
    const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
      Bytes data(8);
      group.run(in_time(), [](Collectives& all, Watch& watch) { all.barrier(watch); });
      together.arrive_and_wait();
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), data.size(), rank, watch);
      });
    });
    EXPECT_THAT(errors, Contains(AllOf(HasSubstr("root 0"), HasSubstr("root 1"))));
  }
}

// A rank that has led in another call is not one that leads in this one.
TEST(HostErrorsTest, RootsMayAlternate) {
  const auto errors = run_as_ranks(3, [](HostGroup& group, int rank) {
    for (int call = 0; call < 3 * static_cast<int>(kCells); ++call) {
      Bytes data(8, static_cast<std::byte>(rank));
      const int root = call / 5 % 3;
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), data.size(), root, watch);
      });
      if (data[0] != static_cast<std::byte>(root)) throw std::runtime_error("wrong data");
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// The root is many calls ahead, and fails when it has to wait.
TEST(HostErrorsTest, ARootThatIsAheadGetsTheErrorOfACallBefore) {
  std::latch has_sent(1);
  int calls_of_root = 0;
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    Bytes data(8);
    for (int call = 0; call < 3 * static_cast<int>(kCells); ++call) {
      if (rank == 1) has_sent.wait();
      const std::size_t bytes = rank == 1 && call == 4 ? 4 : 8;
      group.run(in_time(), [&](Collectives& all, Watch& watch) {
        all.broadcast(data.data(), bytes, 0, watch);
      });
      if (rank == 0 && ++calls_of_root == 10) has_sent.count_down();
    }
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("call 6, broadcast of 8 bytes"),
                                 HasSubstr("call 6, broadcast of 4 bytes"))));
  EXPECT_THAT(calls_of_root, AllOf(Ge(10), Lt(5 + static_cast<int>(kCells))));
}

// The root and rank 2 agree, and rank 2 does not wait for rank 1.
TEST(HostErrorsTest, RanksThatReceiveABroadcastLearnInTheirNextCallThatAnotherRankDiffers) {
  std::latch has_received(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    Bytes data = bytes_of_rank(rank, 0, 8);
    if (rank == 1) has_received.wait();
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      all.broadcast(data.data(), rank == 1 ? 4 : 8, 0, watch);
    });
    EXPECT_EQ(data, bytes_of_rank(0, 0, 8));
    if (rank == 2) has_received.count_down();
    group.run(in_time(), [](Collectives& all, Watch& watch) { all.barrier(watch); });
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("broadcast of 8 bytes"), HasSubstr("of 4 bytes"))));
}

TEST(HostErrorsTest, AnAllToAllWhoseSizesDisagreeIsAnErrorThatNamesBoth) {
  const auto errors = run_as_ranks(2, [](HostGroup& group, int rank) {
    group.run(in_time(), [&](Collectives& all, Watch& watch) {
      Bytes in(8), out(16);
      const std::size_t expected = rank == 1 ? 6 : 4;
      const std::array<Collectives::ConstPart, 2> inputs = {{{in.data(), 4}, {in.data() + 4, 4}}};
      const std::array<Collectives::Part, 2> outputs = {
          {{out.data(), expected}, {out.data() + 8, 4}}};
      all.all_to_all(inputs, outputs, watch);
    });
  });
  EXPECT_EQ(errors[1], "all_to_all: rank 0 sends 4 bytes to rank 1, whose output for them has 6");
}

// The error of a rank that looks whether a call has failed on another one, or "".
std::string error_after(const std::function<void(HostGroup&)>& end_of_rank_1) {
  std::latch has_ended(2);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) end_of_rank_1(group);
    has_ended.arrive_and_wait();
    if (rank == 0) {
      group.run(in_time(), [](Collectives&, Watch& watch) { watch.check_failed(); });
    }
  });
  return errors[0];
}

// In the middle of a call, other ranks may read data that the program has changed since.
TEST(HostErrorsTest, ARankThatFailedOrAbortedInvalidatesWhatWasReadFromIt) {
  EXPECT_EQ(error_after([](HostGroup&) {}), "");
  EXPECT_EQ(error_after([](HostGroup& group) { group.abort(); }), "");  // After its last call.
  EXPECT_EQ(error_after([](HostGroup& group) {
              const auto abort = [&](Collectives&, Watch&) { group.abort(); };
              group.run(in_time(), abort);
            }),
            "rank 1 has left the group");
  EXPECT_EQ(error_after([](HostGroup& group) {
              const auto fail = [](Collectives&, Watch&) {
                throw std::runtime_error("no memory\nframe #0");
              };
              EXPECT_THROW(group.run(in_time(), fail), std::runtime_error);
            }),
            "a call failed on rank 1: no memory");
}

TEST(CallFactsTest, AreDescribed) {
  CallFacts facts{.bytes = 16, .number = 7, .root = 2};
  facts.kind = static_cast<std::uint8_t>(CallKind::kReduce);
  const auto described_as = [&](Element element, Reduction reduction) {
    facts.element = static_cast<std::uint8_t>(element);
    facts.reduction = static_cast<std::uint8_t>(reduction);
    return described(facts);
  };
  EXPECT_EQ(described_as(Element::kComplexHalf, Reduction::kSum),
            "call 7, reduce of 16 bytes of complex half with SUM, root 2");
  EXPECT_EQ(described_as(Element::kComplex64, Reduction::kAverage),
            "call 7, reduce of 16 bytes of complex float with AVG, root 2");
  EXPECT_EQ(described_as(Element::kComplex128, Reduction::kBitwiseXor),
            "call 7, reduce of 16 bytes of complex double with BXOR, root 2");
  // A rank with another version can have written these.
  facts.kind = 99;
  EXPECT_EQ(
      described_as(static_cast<Element>(99), static_cast<Reduction>(99)),
      "call 7, an unknown call of 16 bytes of an unknown dtype with an unknown reduction, root 2");
}

// A barrier's error, or "".
std::string barrier_error(HostGroup& group, milliseconds timeout) {
  try {
    group.run(std::chrono::steady_clock::now() + timeout,
              [](Collectives& all, Watch& watch) { all.barrier(watch); });
  } catch (const HostError& error) {
    return error.what();
  }
  return "";
}

TEST(HostErrorsTest, ATimeOutCountsFromTheFirstWait) {
  constexpr milliseconds kTimeout(50);
  using Clock = std::chrono::steady_clock;
  std::latch has_timed_out(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return has_timed_out.wait();
    group.run(kTimeout, [&](Collectives&, Watch& watch) {
      const auto begin = Clock::now();
      while (Clock::now() < begin + kTimeout * 2) continue;
      const auto first_wait = Clock::now();
      try {
        for (;;) watch.check(1);
      } catch (const HostError&) {
        EXPECT_GE(Clock::now(), first_wait + kTimeout - milliseconds(10));  // A tick of the kernel.
        has_timed_out.count_down();
        throw;
      }
    });
  });
  EXPECT_THAT(errors[0], StartsWith("timed out after "));
}

TEST(HostErrorsTest, ATimeOutNamesTheRanksThatDidNotComeAndFailsTheirNextCall) {
  std::latch timed_out(1);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      const std::string error = barrier_error(group, milliseconds(100));
      timed_out.count_down();
      EXPECT_THAT(error, MatchesRegex("timed out after [0-9]+ms: ranks 0, 2 did not come"));
      EXPECT_EQ(barrier_error(group, kLong), "an earlier call of the group failed: " + error);
    } else {
      timed_out.wait();
      const auto is_of_rank_1 = HasSubstr("a call failed on rank 1: timed out after ");
      // Rank 1 had come, so the barrier may pass.
      EXPECT_THAT(barrier_error(group, kLong), AnyOf("", is_of_rank_1));
      EXPECT_THAT(barrier_error(group, kLong), is_of_rank_1);
    }
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 0 comes, and fails while it waits for rank 2, which does not come.
TEST(HostErrorsTest, AFailureEndsTheWaitsOfRanksThatCame) {
  std::latch failed(2);
  const auto errors = run_as_ranks(3, [&](HostGroup& group, int rank) {
    if (rank == 0) {
      EXPECT_THAT(barrier_error(group, milliseconds(100)), HasSubstr("timed out after "));
    } else if (rank == 1) {
      EXPECT_THAT(barrier_error(group, kLong), StartsWith("a call failed on rank 0: timed out"));
    }
    if (rank != 2) failed.count_down();
    failed.wait();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AWaitEndsWhenTheOtherRankLeaves) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) return;
    EXPECT_EQ(barrier_error(group, kLong), "rank 1 has left the group");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AnyExceptionInACallFailsTheCallsOfOtherRanks) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      EXPECT_EQ(barrier_error(group, kLong), "a call failed on rank 0: no memory");
      return;
    }
    EXPECT_THROW(group.run(in_time(), [](auto&, auto&) { throw std::runtime_error("no memory"); }),
                 std::runtime_error);
    EXPECT_EQ(barrier_error(group, kLong), "an earlier call of the group failed: no memory");
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, SoDoesAnExceptionWithoutAText) {
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      EXPECT_EQ(barrier_error(group, kLong),
                "a call failed on rank 0: an exception without a text");
      return;
    }
    EXPECT_THROW(group.run(in_time(), [](auto&, auto&) { throw 1; }), int);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(HostErrorsTest, AbortEndsTheCallThatRunsAndAllLaterOnes) {
  std::latch aborted(1);
  const auto errors = run_as_ranks(2, [&](HostGroup& group, int rank) {
    if (rank == 1) {
      aborted.wait();  // Else rank 0 sees that it left.
      return;
    }
    std::thread other([&] { group.abort(); });
    EXPECT_EQ(barrier_error(group, kLong), "the group has been aborted");
    other.join();
    aborted.count_down();
    EXPECT_EQ(barrier_error(group, kLong), "the group has been aborted");
  });
  EXPECT_THAT(errors, Each(""));
}

}  // namespace
}  // namespace distrun::shm
