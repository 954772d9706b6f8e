// The protocols of backends/shm/host in shared memory, in all executions: phases, rings of messages
// with their bell, and the state of ranks. The code is that of the backend; only the programs are
// small. A test takes away each acquire and each release in turn, and expects that some program
// then fails, so each order is needed, and each would be missed.
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/shm/host/host_error.h"
#include "backends/shm/host/host_ranks.h"
#include "backends/shm/host/mailbox.h"
#include "backends/shm/host/phases.h"
#include "backends/shm/host/rank_memory.h"
#include "backends/shm/host/test/model/explorer.h"

namespace distrun::shm::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr WaitPolicy kSleepsAtOnce{.looks = 0, .yields = 0};
constexpr WaitPolicy kLooks{.looks = 1'000'000, .yields = 0};
constexpr WaitPolicy kYields{.looks = 0, .yields = 1'000'000};

// So that the cells and slots are soon used again.
constexpr std::uint32_t kFewCells = 2;

MemorySizes sizes_for(int ranks, std::size_t ring_bytes = kLineBytes,
                      std::uint32_t cells = kFewCells) {
  return {.ranks = ranks, .slot_bytes = 2 * kLineBytes, .ring_bytes = ring_bytes, .cells = cells};
}

std::vector<RankMemory*> memories_of(Execution& execution, const MemorySizes& sizes) {
  std::vector<RankMemory*> all;
  for (int rank = 0; rank < sizes.ranks; ++rank) {
    auto* memory = new (execution.memory(sizes.all())) RankMemory();
    all.push_back(memory);
    execution.name(&memory->heading.state, "state");
    execution.name(&memory->bell.word, "bell");
    for (std::uint32_t at = 0; at < sizes.cells; ++at) {
      execution.name(&memory->cells[at].word, "word");
      execution.name(&memory->sleepers[at], "sleepers");
    }
    for (int from = 0; from < sizes.ranks; ++from) {
      execution.name(&ring_of(*memory, from, sizes).written, "written");
      execution.name(&ring_of(*memory, from, sizes).read, "read");
    }
  }
  return all;
}

class NoWatch : public Watch {
 public:
  void check(int /*rank*/) override {}
};

std::byte value_of(int rank, int phase) { return static_cast<std::byte>(rank * 16 + phase); }

// A rank reads a phase of another.
void check_phase(const Phases& phases, int rank, int phase) {
  require(*phases.slot(rank) == value_of(rank, phase), "a slot has the bytes of its phase");
  require(*phases.small_slot(rank) == value_of(rank, phase),
          "a small slot has the bytes of its phase");
  require(*phases.inline_bytes(rank) == value_of(rank, phase), "a cell has the bytes of its phase");
  require(phases.facts(rank).bytes == static_cast<std::uint64_t>(phase),
          "a cell has the facts of its phase");
}

void begin_phase(Phases& phases, int phase, Watch& watch) {
  phases.begin({.bytes = static_cast<std::uint64_t>(phase)}, watch);
  *phases.take_slot(watch) = value_of(phases.rank(), phase);
  *phases.small_slot() = value_of(phases.rank(), phase);
  *phases.inline_bytes() = value_of(phases.rank(), phase);
  phases.publish(watch);
}

// Each rank runs this with its phases.
Program on_each_rank(int ranks, const WaitPolicy& policy,
                     const std::function<void(Phases&, Watch&)>& act,
                     std::uint32_t cells = kFewCells) {
  return [=](Execution& execution) {
    const MemorySizes sizes = sizes_for(ranks, kLineBytes, cells);
    const auto memories = memories_of(execution, sizes);
    for (int rank = 0; rank < ranks; ++rank) {
      auto& phases = execution.kept<Phases>(memories, sizes, rank, policy);
      execution.thread([&phases, act] {
        NoWatch watch;
        act(phases, watch);
      });
    }
  };
}

// Each rank reads what every rank published, in each phase.
Program all_read_all(int ranks, int count, const WaitPolicy& policy) {
  return on_each_rank(ranks, policy, [ranks, count](Phases& phases, Watch& watch) {
    for (int phase = 1; phase <= count; ++phase) {
      begin_phase(phases, phase, watch);
      phases.wait_for_all(watch);
      for (int other = 0; other < ranks; ++other) check_phase(phases, other, phase);
    }
  });
}

// Each rank reads from one rank alone, as in a broadcast of several chunks.
Program all_read_root(int ranks, int count, const WaitPolicy& policy,
                      std::uint32_t cells = kFewCells) {
  const auto act = [count](Phases& phases, Watch& watch) {
    for (int phase = 1; phase <= count; ++phase) {
      begin_phase(phases, phase, watch);
      if (phases.rank() == 0) continue;
      phases.wait_for(0, watch);
      check_phase(phases, 0, phase);
    }
  };
  return on_each_rank(ranks, policy, act, cells);
}

// As a reduction does: what a phase published is read while the next one is written.
Program reads_last_phase_during_next(int ranks, int count, const WaitPolicy& policy) {
  return on_each_rank(ranks, policy, [ranks, count](Phases& phases, Watch& watch) {
    for (int phase = 1; phase <= count; phase += 2) {
      begin_phase(phases, phase, watch);
      phases.wait_for_all(watch);
      std::vector<const std::byte*> sources;
      for (int other = 0; other < ranks; ++other) sources.push_back(phases.slot(other));
      phases.begin({.bytes = static_cast<std::uint64_t>(phase) + 1}, watch);
      std::byte* slot = phases.take_slot(watch);
      for (int other = 0; other < ranks; ++other) {
        require(*sources[static_cast<std::size_t>(other)] == value_of(other, phase),
                "a slot keeps the bytes of the last phase");
      }
      *slot = value_of(phases.rank(), phase + 1);
      *phases.inline_bytes() = *phases.small_slot() = *slot;
      phases.publish(watch);
      for (int other = 0; other < ranks; ++other) {
        phases.wait_for(other, watch);
        check_phase(phases, other, phase + 1);
      }
    }
  });
}

// Rank 0 runs ahead.
Program root_runs_ahead(int ranks, int count, std::uint32_t cells, const WaitPolicy& policy) {
  const auto act = [=](Phases& phases, Watch& watch) {
    for (int phase = 1; phase <= count; ++phase) {
      phases.begin({.bytes = static_cast<std::uint64_t>(phase)}, watch);
      if (phases.rank() == 0) *phases.small_slot() = value_of(0, phase);
      phases.publish(watch);
      if (phases.rank() == 0) continue;
      phases.wait_for(0, watch);
      require(*phases.small_slot(0) == value_of(0, phase), "a small slot has its bytes");
      require(phases.facts(0).bytes == static_cast<std::uint64_t>(phase), "a cell has its facts");
    }
  };
  return on_each_rank(ranks, policy, act, cells);
}

std::vector<Litmus> phases_litmus() {
  return {{"2 ranks, look, ahead", root_runs_ahead(2, 8, 4, kLooks), {}},
          {"2 ranks, sleep, ahead", root_runs_ahead(2, 5, 4, kSleepsAtOnce), {}},
          {"3 ranks, look, ahead", root_runs_ahead(3, 5, 2, kLooks), {}},
          {"2 ranks, look, large slots", all_read_root(2, 5, kLooks, /*cells=*/4), {}},
          {"2 ranks, sleep", all_read_all(2, 3, kSleepsAtOnce), {}},
          {"2 ranks, sleep, for one", all_read_root(2, 4, kSleepsAtOnce), {}},
          {"2 ranks, look", all_read_all(2, 5, kLooks), {}},
          {"3 ranks, look", all_read_all(3, 4, kLooks), {}},
          {"2 ranks, yield", all_read_all(2, 3, kYields), {}},
          {"3 ranks, look, for one", all_read_root(3, 3, kLooks), {}},
          {"3 ranks, look, reduce", reads_last_phase_during_next(3, 3, kLooks), {}},
          {"3 ranks, sleep", all_read_all(3, 1, kSleepsAtOnce), {}}};
}

void expect_no_faults(const std::vector<Litmus>& all) {
  for (const Litmus& litmus : all) {
    const Outcome outcome = explore(litmus.program, litmus.options);
    EXPECT_EQ(outcome.fault, "") << litmus.name;
    EXPECT_GT(outcome.executions, 0) << litmus.name;
  }
}

std::string fault_without_wakes(const Program& program) {
  return explore(program, {.has_wakes = false}).fault;
}

TEST(PhasesModelTest, NoExecutionHasAFault) { expect_no_faults(phases_litmus()); }
TEST(PhasesModelTest, ASleepNeedsItsWakeUp) {
  EXPECT_THAT(fault_without_wakes(all_read_all(2, 1, kSleepsAtOnce)), HasSubstr("deadlock"));
}

TEST(PhasesModelTest, EachOrderIsNeeded) {
  auto all = phases_litmus();
  all.pop_back();  // Takes long, and finds nothing more.
  EXPECT_THAT(needless_orders(all), IsEmpty());
}

constexpr std::size_t kBytes = 8;
constexpr auto kNever = Mailbox::Clock::time_point::max();

Message::Done must_succeed() {
  return [](const std::exception_ptr& error) { require(!error, "a message is complete"); };
}

std::vector<UniqueFd> no_presences(int ranks) {
  return std::vector<UniqueFd>(static_cast<std::size_t>(ranks));
}

struct Rank {
  Rank(int me, const std::vector<RankMemory*>& memories, const MemorySizes& sizes,
       const WaitPolicy& policy = kSleepsAtOnce)
      : ranks(me, {0, 1, 2, 3}, memories, no_presences(sizes.ranks)),
        mailbox(ranks, sizes, policy) {}

  HostRanks ranks;
  Mailbox mailbox;
  std::array<std::byte, 256> bytes{};
};

// Rank 0 sends messages of these sizes to rank 1. The first `before` of them are in the ring
// already.
Program messages(std::size_t before, const std::vector<std::size_t>& all, std::size_t ring_bytes,
                 const WaitPolicy& policy = kSleepsAtOnce) {
  return [=](Execution& execution) {
    const MemorySizes sizes = sizes_for(2, ring_bytes);
    const auto memories = memories_of(execution, sizes);
    auto& sender = execution.kept<Rank>(0, memories, sizes, policy);
    auto& receiver = execution.kept<Rank>(1, memories, sizes, policy);
    const auto send = [&sender, all](std::size_t i) {
      sender.bytes.fill(value_of(static_cast<int>(i), 0));
      const auto message = sender.mailbox.send(sender.bytes.data(), all[i], 1, 0, must_succeed());
      sender.mailbox.wait(*message, kNever);
    };
    for (std::size_t i = 0; i < before; ++i) send(i);
    execution.thread([send, before, count = all.size()] {
      for (std::size_t i = before; i < count; ++i) send(i);
    });
    execution.thread([&receiver, all] {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto message =
            receiver.mailbox.receive(receiver.bytes.data(), all[i], 0, 0, must_succeed());
        receiver.mailbox.wait(*message, kNever);
        for (std::size_t at = 0; at < all[i]; ++at) {
          require(receiver.bytes[at] == value_of(static_cast<int>(i), 0),
                  "a message arrives whole");
        }
      }
    });
  };
}

// Each rank sends to the other, and then receives.
Program exchange() {
  return [](Execution& execution) {
    const MemorySizes sizes = sizes_for(2);
    const auto memories = memories_of(execution, sizes);
    for (int me = 0; me < 2; ++me) {
      auto& mine = execution.kept<Rank>(me, memories, sizes);
      execution.thread([&mine, me] {
        const std::array<std::byte, kBytes> sent{value_of(me, 1)};
        const auto out = mine.mailbox.send(sent.data(), kBytes, 1 - me, 0, must_succeed());
        const auto in = mine.mailbox.receive(mine.bytes.data(), kBytes, 1 - me, 0, must_succeed());
        mine.mailbox.wait(*in, kNever);
        mine.mailbox.wait(*out, kNever);
        require(mine.bytes[0] == value_of(1 - me, 1), "a message arrives whole");
      });
    }
  };
}

HostError broken() { return {HostError::Kind::kFailed, 0, "it is broken"}; }

// What another rank learns of a failure.
void check_failure(const HostError& error) {
  require(std::string(error.what()) == "a call failed on rank 0: it is broken",
          "the reason of a failure is there");
}

// Rank 1 waits for a message from rank 0, which fails.
Program failing_sender() {
  return [](Execution& execution) {
    const MemorySizes sizes = sizes_for(2);
    const auto memories = memories_of(execution, sizes);
    auto& sender = execution.kept<Rank>(0, memories, sizes);
    auto& receiver = execution.kept<Rank>(1, memories, sizes);
    execution.thread([&sender] {
      sender.ranks.fail(broken());
      sender.mailbox.wake_everybody();
    });
    execution.thread([&receiver] {
      const auto must_fail = [](const std::exception_ptr& error) {
        require(static_cast<bool>(error), "a receive fails");
        try {
          std::rethrow_exception(error);
        } catch (const HostError& reason) {
          check_failure(reason);
        }
      };
      const auto message = receiver.mailbox.receive(receiver.bytes.data(), 1, 0, 0, must_fail);
      receiver.mailbox.wait(*message, kNever);
    });
  };
}

std::vector<Litmus> mailbox_litmus() {
  return {{"1 message", messages(0, {8}, kLineBytes), {}},
          {"exchange", exchange(), {}},
          {"failing sender", failing_sender(), {}},
          {"waits for room", messages(1, {8, 8}, kLineBytes / 2), {}},
          {"waits for more room, looks", messages(1, {8, 16}, kLineBytes / 2, kLooks), {}},
          {"2 messages", messages(0, {8, 8}, kLineBytes), {}}};
}

TEST(MailboxModelTest, NoExecutionHasAFault) { expect_no_faults(mailbox_litmus()); }
TEST(MailboxModelTest, ASleepNeedsItsWakeUp) {
  EXPECT_THAT(fault_without_wakes(messages(0, {8}, kLineBytes)), HasSubstr("deadlock"));
  EXPECT_THAT(fault_without_wakes(failing_sender()), HasSubstr("deadlock"));
}

TEST(MailboxModelTest, EachOrderIsNeeded) {
  auto all = mailbox_litmus();
  all.pop_back();
  EXPECT_THAT(needless_orders(all), ElementsAre("Mailbox::drive_once bell.fetch_or: release",
                                                "Mailbox::ring_bell_of bell.fetch_add: acquire",
                                                "Mailbox::ring_bell_of bell.fetch_and: acquire",
                                                "Mailbox::ring_bell_of bell.fetch_and: release",
                                                "store_failure state.load: acquire"));
}
// Asks as the watch of a group does (host_group.cc).
class Watching : public Watch {
 public:
  Watching(const HostRanks& ranks, const Phases& phases) : ranks_(ranks), phases_(phases) {}
  void check(int /*rank*/) override {
    const auto gone = ranks_.gone();
    for (const auto& error : gone) {
      if (!error) continue;
      if (error->kind() == HostError::Kind::kFailed || !phases_.has_published(error->rank())) {
        throw *error;
      }
    }
  }

 private:
  const HostRanks& ranks_;
  const Phases& phases_;
};

HostRanks& ranks_in_shared_memory(Execution& execution, int me,
                                  const std::vector<RankMemory*>& memories) {
  const int ranks = static_cast<int>(memories.size());
  auto* made = new (execution.memory(sizeof(HostRanks)))
      HostRanks(me, {0, 1, 2, 3}, memories, no_presences(ranks));
  execution.keep(std::shared_ptr<HostRanks>(made, [](HostRanks* each) { each->~HostRanks(); }));
  return *made;
}

// Rank 0 fails or leaves after its first phase; rank 1 waits for the second.
Program ends_after_a_phase(bool fails) {
  return [=](Execution& execution) {
    const MemorySizes sizes = sizes_for(2);
    const auto memories = memories_of(execution, sizes);
    for (int me = 0; me < 2; ++me) {
      auto& ranks = ranks_in_shared_memory(execution, me, memories);
      auto& phases = execution.kept<Phases>(memories, sizes, me, kSleepsAtOnce);
      execution.thread([&ranks, &phases, me, fails] {
        Watching watch(ranks, phases);
        if (me == 0) {
          begin_phase(phases, 1, watch);
          if (fails) {
            ranks.fail(broken());
          } else {
            ranks.leave();
          }
          phases.wake_everybody();
          return;
        }
        int phase = 1;
        try {
          for (; phase <= 2; ++phase) {
            begin_phase(phases, phase, watch);
            phases.wait_for(0, watch);
            check_phase(phases, 0, phase);
          }
          require(false, "the second phase fails");
        } catch (const HostError& error) {
          if (fails) {
            check_failure(error);
          } else {
            require(phase == 2, "what a rank published before it left counts");
            require(error.kind() == HostError::Kind::kLeft, "the rank has left");
          }
        }
      });
    }
  };
}

// Two threads of rank 0 fail and abort at the same time.
Program fails_and_aborts() {
  return [](Execution& execution) {
    const auto memories = memories_of(execution, sizes_for(2));
    auto& mine = ranks_in_shared_memory(execution, 0, memories);
    auto& theirs = ranks_in_shared_memory(execution, 1, memories);
    execution.thread([&mine] { mine.fail(broken()); });
    execution.thread([&mine] {
      const std::atomic<bool> is_running = true;
      mine.abort(is_running);
      try {
        mine.check_usable();
        require(false, "a group that was aborted is not usable");
      } catch (const HostError&) {
      }
    });
    execution.thread([&theirs] {
      const auto error = theirs.gone()[0];
      if (error && error->kind() == HostError::Kind::kFailed) check_failure(*error);
    });
  };
}

std::vector<Litmus> ranks_litmus() {
  // A rank that fails does not change the words on which others sleep for a phase: those that were
  // about to sleep learn it when their sleep ends.
  const Options sleeps_end{.sleeps_end = true, .early_ends_of_sleep = 1};
  return {{"fails after a phase", ends_after_a_phase(true), sleeps_end},
          {"leaves after a phase", ends_after_a_phase(false), sleeps_end},
          {"fails and aborts", fails_and_aborts(), {.has_mutexes = true}}};
}

TEST(HostRanksModelTest, NoExecutionHasAFault) { expect_no_faults(ranks_litmus()); }
TEST(HostRanksModelTest, ARankThatIsAboutToSleepMissesAFailureUntilItsSleepEnds) {
  EXPECT_THAT(explore(ends_after_a_phase(true)).fault, HasSubstr("deadlock"));
}

TEST(HostRanksModelTest, EachOrderIsNeeded) {
  auto needless = needless_orders(ranks_litmus());
  // Other tests need those of phases. The mutex orders the flags of a process, which have no name.
  std::erase_if(needless, [](const std::string& each) {
    return each.rfind("Phases::", 0) == 0 || each.find(" ?.") != std::string::npos;
  });
  EXPECT_THAT(needless, ElementsAre("HostRanks::leave state.compare_exchange: acquire",
                                    "HostRanks::leave state.compare_exchange: acquire on failure",
                                    "store_failure state.load: acquire"));
}

}  // namespace
}  // namespace distrun::shm::model
