#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "backends/ranks_testing.h"
#include "parallel/join.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sums a one for each rank that has not joined, and writes down what it does.
class AllReducer : public Joinable {
 public:
  explicit AllReducer(std::vector<std::string>* log = nullptr, std::string name = "",
                      Group group = {})
      : log_(log), name_(std::move(name)), group_(std::move(group)) {}

  int step() {
    notify_join_context();
    return sum(1);
  }

  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override {
    return std::make_unique<Hook>(*this, arguments.get("fail_on_rank", int64_t{-1}));
  }
  c10::Device join_device() const override { return at::kCPU; }
  Group join_process_group() const override { return group_; }

  std::vector<bool> post_hooks;  // Each with its flag.

 private:
  class Hook : public JoinHook {
   public:
    Hook(AllReducer& its, int64_t fails_on) : its_(its), fails_on_(fails_on) {}
    void main_hook() override {
      if (get_rank() == fails_on_) throw std::runtime_error("the hook is broken");
      its_.write("main");
      its_.sum(0);
    }
    void post_hook(bool is_last_joiner) override {
      its_.write("post");
      its_.post_hooks.push_back(is_last_joiner);
    }

   private:
    AllReducer& its_;
    int64_t fails_on_;
  };

  int sum(int own) const {
    const at::Tensor tensor = at::full({1}, own, at::kInt);
    all_reduce(tensor, ReduceOp::SUM, {.group = group_});
    return tensor.item<int>();
  }
  void write(const std::string& what) const {
    if (log_ != nullptr) log_->push_back(name_ + what);
  }

  std::vector<std::string>* log_;
  std::string name_;
  Group group_;
};

struct JoinRanksTest : RanksTest {
  static bool has_one_rank() { return get_world_size() == 1; }
  // Of `inputs`, as many as this rank has, the sums.
  static std::vector<int> steps(AllReducer& reducer, int inputs) {
    std::vector<int> sums;
    for (int i = 0; i < inputs; ++i) sums.push_back(reducer.step());
    return sums;
  }
};

TEST_F(JoinRanksTest, ARankWithFewerInputsWorksForTheOthers) {
  AllReducer reducer;
  std::vector<int> sums;
  Join({reducer}).run([&] { sums = steps(reducer, 2 + get_rank()); });
  std::vector<int> expected = {get_world_size(), get_world_size()};
  for (int joined = 1; joined <= get_rank(); ++joined)
    expected.push_back(get_world_size() - joined);
  EXPECT_EQ(sums, expected);
  EXPECT_THAT(reducer.post_hooks, ElementsAre(get_rank() == get_world_size() - 1));
}

TEST_F(JoinRanksTest, WithEvenInputsAllJoinLast) {
  AllReducer reducer;
  Join({reducer}).run([&] { steps(reducer, 2); });
  EXPECT_THAT(reducer.post_hooks, ElementsAre(true));
}

TEST_F(JoinRanksTest, ARankMayHaveNoInputAtAll) {
  AllReducer reducer;
  Join({reducer}).run([&] { steps(reducer, get_rank() == 0 ? 0 : 3); });
  EXPECT_THAT(reducer.post_hooks, ElementsAre(has_one_rank() || get_rank() != 0));
}

TEST_F(JoinRanksTest, HooksOfSeveralRunInTheOrderOfTheList) {
  std::vector<std::string> log;
  AllReducer a(&log, "a "), b(&log, "b ");
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

TEST_F(JoinRanksTest, CanBeRunAgainAndOutsideOfItNothingIsTold) {
  AllReducer reducer;
  Join join({reducer});
  for (int i = 0; i < 2; ++i) join.run([&] { steps(reducer, 1 + get_rank()); });
  EXPECT_FALSE(reducer.is_joining());
  const auto before = get_sequence_number();
  EXPECT_EQ(reducer.step(), get_world_size());
  EXPECT_EQ(get_sequence_number(), before + 1);
}

TEST_F(JoinRanksTest, WhereItIsNotEnabledTheBodyJustRuns) {
  AllReducer reducer;
  int sum = 0;
  Join({reducer}, {.enable = false}).run([&] {
    EXPECT_FALSE(reducer.is_joining());
    sum = reducer.step();
  });
  EXPECT_EQ(sum, get_world_size());
  EXPECT_TRUE(reducer.post_hooks.empty());
}

TEST_F(JoinRanksTest, ThrowsOnEveryRankWhenOneHasNoInputsLeftAndTheGroupStaysGood) {
  AllReducer a, b;
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

TEST_F(JoinRanksTest, EvenInputsAreNoEarlyTermination) {
  AllReducer reducer;
  Join join({reducer}, {.throw_on_early_termination = true});
  EXPECT_NO_THROW(join.run([&] { steps(reducer, 3); }));
  EXPECT_THAT(reducer.post_hooks, ElementsAre(true));
}

// A body that throws after so many steps, on the last rank; returns what each rank has to say.
TEST_F(JoinRanksTest, ABodyThatThrowsEndsTheJoinOnEveryRankWithItsText) {
  const int last = get_world_size() - 1;
  AllReducer reducer;
  std::string text;
  try {
    Join({reducer}).run([&] {
      steps(reducer, 1 + get_rank());
      if (get_rank() == last) throw std::out_of_range("no such file: digits.bin");
      steps(reducer, 2);
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
  EXPECT_FALSE(reducer.is_joining());
  destroy_process_group();
}

TEST_F(JoinRanksTest, AHookThatThrowsEndsItToo) {
  AllReducer reducer;
  std::string text;
  try {
    Join({reducer}, {.arguments = {{"fail_on_rank", 0}}}).run([&] {
      steps(reducer, get_rank() == 0 ? 0 : 2);
    });
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
  destroy_process_group();
}

TEST_F(JoinRanksTest, WorksInAGroupOfSomeRanks) {
  if (get_world_size() < 3) return;
  const Group group = new_group({1, 2});
  if (group.is_member()) {
    AllReducer reducer(nullptr, "", group);
    std::vector<int> sums;
    Join({reducer}).run([&] { sums = steps(reducer, get_rank()); });
    EXPECT_EQ(sums, get_rank() == 1 ? std::vector({2}) : std::vector({2, 1}));
  }
  barrier();
}

TEST_F(JoinRanksTest, WhatMakesNoSenseIsRefused) {
  AllReducer a, b;
  EXPECT_EQ(error_of<c10::ValueError>([] { Join({}); }), "join: expected at least one joinable");
  EXPECT_EQ(error_of<c10::ValueError>([&] { Join({a, a}); }), "join: a joinable is there twice");
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              Join({a, b}, {.arguments = {{"fail_on_rank", 7}, {"num_allreduce", 1}}});
            }),
            "join: no joinable knows the argument num_allreduce");
  const Group all = new_group();
  AllReducer elsewhere(nullptr, "", all);
  EXPECT_THAT(error_of<c10::ValueError>([&] {
                Join({a, elsewhere});
              }),
              HasSubstr("joinables are of several groups"));
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
