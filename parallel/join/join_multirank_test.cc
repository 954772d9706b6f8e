#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "backends/test/multirank_test.h"
#include "parallel/join/test/counting_joinable.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Counter = testing::CountingJoinable;

struct JoinMultirankTest : MultirankTest {
  static bool has_one_rank() { return get_world_size() == 1; }
  static std::vector<int> steps(Counter& counter, int inputs) {
    std::vector<int> sums;
    for (int i = 0; i < inputs; ++i) sums.push_back(counter.step());
    return sums;
  }
  // Expects that no rank waits until the timeout. Then the ranks leave the group together.
  static void expect_all_are_told(const std::string& place, const std::string& text) {
    EXPECT_THAT(text, Not(HasSubstr("Timed out")));
    rendezvous_at(place);
    destroy_process_group();
  }
};

TEST_F(JoinMultirankTest, ShadowsRanksWithMoreInputs) {
  Counter counter;
  std::vector<int> sums;
  Join({counter}).run([&] { sums = steps(counter, 2 + get_rank()); });
  std::vector<int> expected = {get_world_size(), get_world_size()};
  for (int joined = 1; joined <= get_rank(); ++joined)
    expected.push_back(get_world_size() - joined);
  EXPECT_EQ(sums, expected);
  EXPECT_THAT(counter.post_hooks, ElementsAre(get_rank() == get_world_size() - 1));
}

TEST_F(JoinMultirankTest, TreatsEveryRankAsLastJoinerForEvenInputs) {
  Counter counter;
  Join({counter}).run([&] { steps(counter, 2); });
  EXPECT_THAT(counter.post_hooks, ElementsAre(true));
}

TEST_F(JoinMultirankTest, AcceptsARankWithoutInputs) {
  Counter counter;
  Join({counter}).run([&] { steps(counter, get_rank() == 0 ? 0 : 3); });
  EXPECT_THAT(counter.post_hooks, ElementsAre(has_one_rank() || get_rank() != 0));
}

TEST_F(JoinMultirankTest, RunsHooksInTheOrderOfTheList) {
  std::vector<std::string> log;
  Counter a, b;
  a.in_main_hook = [&] { log.push_back("a main"); };
  b.in_main_hook = [&] { log.push_back("b main"); };
  a.in_post_hook = [&] { log.push_back("a post"); };
  b.in_post_hook = [&] { log.push_back("b post"); };
  Join({a, b}).run([&] {
    for (int i = 0; i < (get_rank() == 0 ? 1 : 2); ++i) {
      a.step();
      b.step();
    }
  });
  if (get_rank() == 0 && !has_one_rank()) {
    EXPECT_THAT(log, ElementsAre("a main", "b main", "a post", "b post"));
  } else {
    EXPECT_THAT(log, ElementsAre("a post", "b post"));
  }
}

TEST_F(JoinMultirankTest, RunsAgainAndAnnouncesNothingOutsideOfARun) {
  Counter counter;
  Join join({counter});
  for (int i = 0; i < 2; ++i) join.run([&] { steps(counter, 1 + get_rank()); });
  EXPECT_FALSE(counter.is_joining());
  const auto before = get_sequence_number();
  EXPECT_EQ(counter.step(), get_world_size());
  EXPECT_EQ(get_sequence_number(), before + 1);
}

TEST_F(JoinMultirankTest, OnlyRunsTheBodyIfNotEnabled) {
  Counter counter;
  int sum = 0;
  Join({counter}, {.enable = false}).run([&] {
    EXPECT_FALSE(counter.is_joining());
    sum = counter.step();
  });
  EXPECT_EQ(sum, get_world_size());
  EXPECT_TRUE(counter.post_hooks.empty());
}

TEST_F(JoinMultirankTest, ThrowsOnEveryRankForUnevenInputsAndKeepsTheGroupUsable) {
  Counter a, b;
  Join join({a, b}, {.throw_on_early_termination = true});
  const std::string error = error_of<UnevenInputsError>([&] {
    join.run([&] {
      for (int i = 0; i < 1 + get_rank(); ++i) {
        a.step();
        b.step();
      }
    });
  });
  if (has_one_rank()) {
    EXPECT_EQ(error, "no error");
  } else if (get_rank() == 0) {
    EXPECT_EQ(error, "Rank 0 exhausted all inputs.");
  } else {
    EXPECT_EQ(error,
              "Detected at least one rank that exhausted inputs. Throwing across all ranks.");
  }
  EXPECT_EQ(a.is_joining(), false);
  barrier();
}

TEST_F(JoinMultirankTest, ThrowsAgainIfTheBodyCatchesTheErrorAndKeepsTheGroupUsable) {
  Counter counter;
  Join join({counter}, {.throw_on_early_termination = true});
  const std::string error = error_of<UnevenInputsError>([&] {
    join.run([&] {
      try {
        steps(counter, 1 + get_rank());
      } catch (const UnevenInputsError&) {
        // Like a body that skips a bad batch.
      }
    });
  });
  if (!has_one_rank()) {
    EXPECT_EQ(error, get_rank() == 0
                         ? "Rank 0 exhausted all inputs."
                         : "join: the body caught the UnevenInputsError; it must let it propagate");
  }
  EXPECT_EQ(counter.step(), get_world_size());
}

TEST_F(JoinMultirankTest, KeepsEachRanksExceptionIfAllThrow) {
  Counter counter;
  EXPECT_THROW(Join({counter}).run([&] {
    counter.step();
    throw std::out_of_range("no such file: digits.bin");
  }),
               std::out_of_range);
  destroy_process_group();
}

TEST_F(JoinMultirankTest, DoesNotThrowForEvenInputs) {
  Counter counter;
  Join join({counter}, {.throw_on_early_termination = true});
  EXPECT_NO_THROW(join.run([&] { steps(counter, 3); }));
  EXPECT_THAT(counter.post_hooks, ElementsAre(true));
}

TEST_F(JoinMultirankTest, EndsOnEveryRankIfTheBodyThrows) {
  const int last = get_world_size() - 1;
  Counter counter;
  std::string text;
  try {
    Join({counter}).run([&] {
      steps(counter, 1 + get_rank());
      if (get_rank() == last) throw std::out_of_range("no such file: digits.bin");
      steps(counter, 2);
    });
  } catch (const std::out_of_range& error) {
    text = error.what();
  } catch (const c10::DistError& error) {
    text = error.what_without_backtrace();
  }
  if (get_rank() == last) {
    EXPECT_EQ(text, "no such file: digits.bin");
  } else {
    EXPECT_THAT(text, HasSubstr("join on rank " + std::to_string(get_rank()) + ": rank " +
                                std::to_string(last) + " has failed: no such file: digits.bin"));
  }
  EXPECT_FALSE(counter.is_joining());
  expect_all_are_told("body", text);
}

TEST_F(JoinMultirankTest, ReportsAnExceptionOfAForeignType) {
  Counter counter;
  std::string text;
  try {
    Join({counter}).run([&] {
      if (get_rank() == 0) throw 7;
      steps(counter, 1);
    });
  } catch (const c10::DistError& error) {
    text = error.what_without_backtrace();
  } catch (int thrown) {
    text = std::to_string(thrown);
  }
  if (get_rank() == 0) {
    EXPECT_EQ(text, "7");
  } else {
    EXPECT_THAT(text, StartsWith("join on rank " + std::to_string(get_rank()) +
                                 ": rank 0 has failed: an exception that is not a std::exception; "
                                 "this rank saw: "));
  }
  expect_all_are_told("foreign", text);
}

TEST_F(JoinMultirankTest, WarnsARankThatHasFarFewerInputs) {
  if (has_one_rank()) GTEST_SKIP() << "needs a peer";
  struct Warnings : c10::WarningHandler {
    std::vector<std::string> texts;
    void process(const c10::Warning& warning) override {
      if (warning.msg().starts_with("join: ")) texts.push_back(warning.msg());
    }
  } warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  Counter counter;
  Join({counter}).run([&] { steps(counter, get_rank() == 0 ? 0 : 1001); });
  if (get_rank() == 0) {
    EXPECT_THAT(warnings.texts,
                ElementsAre("join: rank 0 has at least 1000 fewer inputs than other ranks and only "
                            "takes part in their collectives; distribute the data more evenly"));
  } else {
    EXPECT_THAT(warnings.texts, ElementsAre());
  }
}

TEST_F(JoinMultirankTest, EndsOnEveryRankIfAHookThrows) {
  Counter counter;
  counter.in_main_hook = [] {
    if (get_rank() == 0) throw std::runtime_error("the hook is broken");
  };
  std::string text;
  try {
    Join({counter}).run([&] { steps(counter, get_rank() == 0 ? 0 : 2); });
  } catch (const c10::DistError& error) {
    text = error.what_without_backtrace();
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  if (has_one_rank()) {
    EXPECT_EQ(text, "");
    return;
  }
  EXPECT_THAT(text, HasSubstr("the hook is broken"));
  EXPECT_EQ(text.find("rank 0 has failed") != std::string::npos, get_rank() != 0) << text;
  expect_all_are_told("hook", text);
}

// Only the ranks of the inner join know of its uneven inputs.
TEST_F(JoinMultirankTest, EndsOnEveryRankIfAnInnerJoinHasUnevenInputs) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs three ranks";
  const Group pair = new_group({0, 1});
  Counter outer, inner(pair);
  const std::string text = error_of([&] {
    Join({outer}).run([&] {
      outer.step();
      if (pair.is_member()) {
        Join({inner}, {.throw_on_early_termination = true}).run([&] {
          for (int i = 0; i < 1 + get_rank(); ++i) inner.step();
        });
      }
      outer.step();
    });
  });
  EXPECT_THAT(text, HasSubstr("exhausted"));
  expect_all_are_told("uneven", text);
}

TEST_F(JoinMultirankTest, KeepsTheErrorOfABodyThatLeavesTheGroup) {
  const bool leaves = get_rank() == 0;
  Counter counter;
  std::string text;
  try {
    Join({counter}).run([&] {
      counter.step();
      if (leaves) {
        destroy_process_group();
        throw std::out_of_range("no such file: digits.bin");
      }
      counter.step();
    });
  } catch (const std::out_of_range& error) {
    text = error.what();
  } catch (const c10::DistError& error) {
    text = error.what_without_backtrace();
  }
  if (leaves) {
    EXPECT_EQ(text, "no such file: digits.bin");
    return;
  }
  // The failing rank could not publish its error, so others report a lost connection.
  EXPECT_THAT(text, ContainsRegex(lost_peer()));
  destroy_process_group();
}

TEST_F(JoinMultirankTest, WorksInAGroupOfSomeRanks) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs three ranks";
  const Group group = new_group({1, 2});
  if (group.is_member()) {
    Counter counter(group);
    std::vector<int> sums;
    Join({counter}).run([&] { sums = steps(counter, get_rank()); });
    EXPECT_EQ(sums, get_rank() == 1 ? std::vector({2}) : std::vector({2, 1}));
  }
  barrier();
}

TEST_F(JoinMultirankTest, RejectsArgumentsOfAnotherNameOrType) {
  Counter a, b;
  EXPECT_EQ(error_of<c10::TypeError>([&] {
              a.join_hook({{"weight", "seven"}});
            }),
            "join: the argument weight has the type str, which its joinable does not accept");
  rendezvous_at("connected");  // The join fails before any collective, and ends the group.
  Join join({a, b}, {.arguments = {{"weight", 7}, {"num_allreduce", 1}}});
  EXPECT_EQ(error_of([&] { join.run([] {}); }),
            "join: no joinable reads the argument num_allreduce");
  destroy_process_group();
}

TEST_F(JoinMultirankTest, RejectsAJoinableWithoutAHook) {
  struct Hookless : Counter {
    std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override { return nullptr; }
  } counter;
  rendezvous_at("connected");  // As above.
  EXPECT_EQ(error_of<c10::ValueError>([&] { Join({counter}).run([] {}); }),
            "join: the join_hook() of a joinable returned null; expected a JoinHook");
  destroy_process_group();
}

TEST_F(JoinMultirankTest, DoesNotCopyThePartInAJoin) {
  Counter counter;
  Join({counter}).run([&] {
    const Counter copy = counter;
    EXPECT_FALSE(copy.is_joining());
    counter = copy;
    EXPECT_TRUE(counter.is_joining());
  });
}

TEST_F(JoinMultirankTest, RejectsInvalidJoinables) {
  Counter a, b;
  EXPECT_EQ(error_of<c10::ValueError>([] { Join({}); }), "join: expected at least one joinable");
  EXPECT_EQ(error_of<c10::ValueError>([&] { Join({a, a}); }), "join: a joinable is listed twice");
  const Group all = new_group();
  Counter elsewhere(all);
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              Join({a, elsewhere});
            }),
            "join: joinables belong to several groups; expected one group: run one Join per group");
  Join outer({a}), inner({b, a});
  outer.run([&] {
    EXPECT_EQ(error_of<c10::ValueError>([&] { inner.run([] {}); }),
              "join: a joinable is in another join that is running");
    EXPECT_FALSE(b.is_joining());
    EXPECT_TRUE(a.is_joining());
  });
  barrier({.group = all});
}

}  // namespace
}  // namespace distrun
