// Known programs: what C++ and Arm allow for them, and what not.
#include "backends/shm/host/test/model/explorer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/futex.h"

namespace distrun::shm::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Atomic = std::atomic<std::uint32_t>;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kBoth = std::memory_order_acq_rel;

// The results that a program can have.
struct Results {
  std::set<std::string> all;
  Outcome outcome;
};
Results results_of(const std::function<std::function<std::string()>(Execution&)>& program) {
  Results results;
  results.outcome = explore([&](Execution& execution) {
    const auto result = program(execution);
    execution.at_end([&, result] { results.all.insert(result()); });
  });
  return results;
}

struct Registers {
  std::uint32_t a = 9, b = 9, c = 9, d = 9;
  std::string text() const {
    std::string all;
    for (const std::uint32_t each : {a, b, c, d}) {
      if (each != 9) all += std::to_string(each);
    }
    return all;
  }
};

TEST(ExplorerTest, ReleasedDataIsThereAfterAnAcquire) {
  const auto outcome = [](std::memory_order store, std::memory_order load) {
    return explore([=](Execution& execution) {
      auto& flag = execution.shared<Atomic>("flag");
      auto& data = execution.shared<int>("data");
      execution.thread([&, store] {
        data = 1;
        flag.store(1, store);
      });
      execution.thread([&, load] {
        if (flag.load(load) == 1) require(data == 1, "the data is there");
      });
    });
  };
  EXPECT_EQ(outcome(kRelease, kAcquire).fault, "");
  EXPECT_EQ(outcome(kRelease, kAcquire).executions, 2);
  EXPECT_THAT(outcome(kRelaxed, kAcquire).fault, HasSubstr("data race: thread 1 reads"));
  EXPECT_THAT(outcome(kRelease, kRelaxed).fault, HasSubstr("data race"));
}

// Message passing through two atomics.
TEST(ExplorerTest, RelaxedLoadsReturnOldValues) {
  const auto results = [](std::memory_order store, std::memory_order load) {
    return results_of([=](Execution& execution) {
      auto& x = execution.shared<Atomic>("x");
      auto& y = execution.shared<Atomic>("y");
      auto& registers = execution.kept<Registers>();
      execution.thread([&, store] {
        x.store(1, kRelaxed);
        y.store(1, store);
      });
      execution.thread([&, load] {
        registers.a = y.load(load);
        registers.b = x.load(kRelaxed);
      });
      return [&] { return registers.text(); };
    });
  };
  EXPECT_THAT(results(kRelease, kAcquire).all, ElementsAre("00", "01", "11"));
  EXPECT_EQ(results(kRelease, kAcquire).outcome.executions, 3);
  EXPECT_THAT(results(kRelaxed, kAcquire).all, ElementsAre("00", "01", "10", "11"));
  EXPECT_THAT(results(kRelease, kRelaxed).all, ElementsAre("00", "01", "10", "11"));
  EXPECT_EQ(results(kRelease, kRelaxed).outcome.executions, 4);
}

// Store buffering.
TEST(ExplorerTest, BothThreadsMayMissEachOthersStore) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& y = execution.shared<Atomic>("y");
    auto& registers = execution.kept<Registers>();
    execution.thread([&] {
      x.store(1, kRelease);
      registers.a = y.load(kAcquire);
    });
    execution.thread([&] {
      y.store(1, kRelease);
      registers.b = x.load(kAcquire);
    });
    return [&] { return registers.text(); };
  });
  EXPECT_THAT(results.all, ElementsAre("00", "01", "10", "11"));
  EXPECT_EQ(results.outcome.executions, 4);
}

TEST(ExplorerTest, UpdatesOfOneWordDoNotMissEachOther) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& registers = execution.kept<Registers>();
    execution.thread([&] { registers.a = x.fetch_add(1, kRelaxed); });
    execution.thread([&] { registers.b = x.fetch_add(1, kRelaxed); });
    execution.thread([&] { registers.c = x.fetch_add(1, kRelaxed); });
    return [&] { return registers.text() + "," + std::to_string(x.load()); };
  });
  EXPECT_THAT(results.all, ElementsAre("012,3", "021,3", "102,3", "120,3", "201,3", "210,3"));
  EXPECT_EQ(results.outcome.executions, 6);
}

// Independent reads of independent writes.
TEST(ExplorerTest, TwoReadersMaySeeTwoStoresInDifferentOrders) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& y = execution.shared<Atomic>("y");
    auto& registers = execution.kept<Registers>();
    execution.thread([&] { x.store(1, kRelease); });
    execution.thread([&] { y.store(1, kRelease); });
    execution.thread([&] {
      registers.a = x.load(kAcquire);
      registers.b = y.load(kAcquire);
    });
    execution.thread([&] {
      registers.c = y.load(kAcquire);
      registers.d = x.load(kAcquire);
    });
    return [&] { return registers.text(); };
  });
  EXPECT_EQ(results.all.size(), 16);
  EXPECT_EQ(results.outcome.executions, 16);
}

TEST(ExplorerTest, LoadsOfOneWordDoNotGoBack) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& registers = execution.kept<Registers>();
    execution.thread([&] {
      x.store(1, kRelaxed);
      x.store(2, kRelaxed);
    });
    execution.thread([&] {
      registers.a = x.load(kRelaxed);
      registers.b = x.load(kRelaxed);
    });
    return [&] { return registers.text(); };
  });
  EXPECT_THAT(results.all, ElementsAre("00", "01", "02", "11", "12", "22"));
  EXPECT_EQ(results.outcome.executions, 6);
}

// Two threads write two words: each word may end with the first store of a thread.
TEST(ExplorerTest, StoresMayGoBeforeThoseOfOthers) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& y = execution.shared<Atomic>("y");
    execution.thread([&] {
      x.store(1, kRelaxed);
      y.store(2, kRelaxed);
    });
    execution.thread([&] {
      y.store(1, kRelaxed);
      x.store(2, kRelaxed);
    });
    return [&] { return std::to_string(x.load()) + std::to_string(y.load()); };
  });
  EXPECT_THAT(results.all, ElementsAre("11", "12", "21", "22"));
}

// A chain of three threads.
TEST(ExplorerTest, WhatIsAcquiredIsReleasedOnward) {
  const auto outcome = [](std::memory_order load, std::memory_order store) {
    return explore([=](Execution& execution) {
      auto& data = execution.shared<int>("data");
      auto& x = execution.shared<Atomic>("x");
      auto& y = execution.shared<Atomic>("y");
      execution.thread([&] {
        data = 1;
        x.store(1, kRelease);
      });
      execution.thread([&, load, store] {
        if (x.load(load) == 1) y.store(1, store);
      });
      execution.thread([&] {
        if (y.load(kAcquire) == 1) require(data == 1, "the data is there");
      });
    });
  };
  EXPECT_EQ(outcome(kAcquire, kRelease).fault, "");
  EXPECT_THAT(outcome(kRelaxed, kRelease).fault, HasSubstr("data race"));
  EXPECT_THAT(outcome(kAcquire, kRelaxed).fault, HasSubstr("data race"));
}

TEST(ExplorerTest, ARelaxedUpdateContinuesARelease) {
  const auto outcome = [](bool updates) {
    return explore([=](Execution& execution) {
      auto& data = execution.shared<int>("data");
      auto& x = execution.shared<Atomic>("x");
      execution.thread([&] {
        data = 1;
        x.store(1, kRelease);
      });
      execution.thread([&, updates] {
        if (updates) {
          x.fetch_or(2, kRelaxed);
        } else if (x.load(kRelaxed) == 1) {
          x.store(3, kRelaxed);
        }
      });
      execution.thread([&] {
        if (x.load(kAcquire) == 3) require(data == 1, "the data is there");
      });
    });
  };
  EXPECT_EQ(outcome(true).fault, "");
  EXPECT_THAT(outcome(false).fault, HasSubstr("data race"));
}

// A reader releases what a writer writes again.
TEST(ExplorerTest, AWriteDoesNotRaceWithAReadThatWasReleased) {
  const auto outcome = [](std::memory_order store) {
    return explore([=](Execution& execution) {
      auto& data = execution.shared<int>("data");
      auto& is_read = execution.shared<Atomic>("is_read");
      execution.thread([&, store] {
        require(data == 0, "the data is old");
        is_read.store(1, store);
      });
      execution.thread([&] {
        if (is_read.load(kAcquire) == 1) data = 1;
      });
    });
  };
  EXPECT_EQ(outcome(kRelease).fault, "");
  EXPECT_THAT(outcome(kRelaxed).fault, HasSubstr("data race: thread 1 writes"));
}

TEST(ExplorerTest, ACompareExchangeFailsOrUpdates) {
  const auto results = results_of([](Execution& execution) {
    auto& x = execution.shared<Atomic>("x");
    auto& registers = execution.kept<Registers>();
    const auto take = [&](std::uint32_t& result, std::uint32_t mine) {
      std::uint32_t expected = 0;
      result = x.compare_exchange_strong(expected, mine, kBoth) ? 0 : expected;
    };
    execution.thread([&, take] { take(registers.a, 1); });
    execution.thread([&, take] { take(registers.b, 2); });
    return [&] { return registers.text() + "," + std::to_string(x.load()); };
  });
  EXPECT_THAT(results.all, ElementsAre("01,1", "20,2"));
}

// A sleeper that does not look again after it said that it sleeps.
TEST(ExplorerTest, ALostWakeUpIsADeadlock) {
  const auto outcome = [](bool looks_again) {
    return explore([=](Execution& execution) {
      auto& word = execution.shared<Atomic>("word");
      auto& sleepers = execution.shared<Atomic>("sleepers");
      execution.thread([&, looks_again] {
        std::uint32_t seen = word.load(kAcquire);
        if (seen != 0) return;
        sleepers.store(1, kRelease);
        if (looks_again) {
          sleep_on(word, seen, kLookAround);
        } else {
          sleep_on(sleepers, 1, kLookAround);
        }
      });
      execution.thread([&] {
        word.store(1, kRelease);
        wake_sleepers(word);
        wake_sleepers(sleepers);
      });
    });
  };
  EXPECT_EQ(outcome(true).fault, "");
  EXPECT_THAT(outcome(false).fault, HasSubstr("deadlock"));
}

// The wake-up depends on a load that may return an old value: two words need more than acquire and
// release.
TEST(ExplorerTest, AnOldValueLosesAWakeUp) {
  const auto outcome = explore([](Execution& execution) {
    auto& word = execution.shared<Atomic>("word");
    auto& sleepers = execution.shared<Atomic>("sleepers");
    execution.thread([&] {
      sleepers.store(1, kRelease);
      sleep_on(word, 0, kLookAround);
    });
    execution.thread([&] {
      word.store(1, kRelease);
      if (sleepers.load(kAcquire) == 1) wake_sleepers(word);
    });
  });
  EXPECT_THAT(outcome.fault, HasSubstr("deadlock"));
}

TEST(ExplorerTest, AWaitThatLooksAgainEndsIfAStoreComes) {
  const auto outcome = [](bool stores) {
    return explore([=](Execution& execution) {
      auto& flag = execution.shared<Atomic>("flag");
      execution.thread([&, stores] {
        if (stores) flag.store(1, kRelease);
      });
      execution.thread([&] {
        while (flag.load(kAcquire) == 0) pause_briefly();
      });
    });
  };
  EXPECT_EQ(outcome(true).fault, "");
  EXPECT_EQ(outcome(true).executions, 1);
  EXPECT_THAT(outcome(false).fault, HasSubstr("deadlock"));
}

void send(Atomic& flag, int& data) {
  data = 1;
  flag.store(1, kRelease);
}
void receive(Atomic& flag, const int& data) {
  if (flag.load(kAcquire) == 1) require(data == 1, "the data is there");
}
void count(Atomic& number) { number.fetch_add(1, kBoth); }

TEST(ExplorerTest, ReportsOrdersWithoutWhichNothingChanges) {
  const Litmus litmus{"message",
                      [](Execution& execution) {
                        auto& flag = execution.shared<Atomic>("flag");
                        auto& number = execution.shared<Atomic>("number");
                        auto& data = execution.shared<int>("data");
                        execution.thread([&] {
                          send(flag, data);
                          count(number);
                        });
                        execution.thread([&] {
                          receive(flag, data);
                          count(number);
                        });
                      },
                      {}};
  EXPECT_THAT(needless_orders({litmus}), ElementsAre(HasSubstr("number.fetch_add: acquire"),
                                                     HasSubstr("number.fetch_add: release")));
}

}  // namespace
}  // namespace distrun::shm::model
