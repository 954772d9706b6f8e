// Properties of every order, for all numbers of stages and micro-batches up to a bound.
#include "parallel/pipeline/pipeline_order.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;
using Action = PipelineAction::Kind;
using OrderFunction = PipelineOrder (*)(const StagePlace&, int);

constexpr int kStagesMax = 7, kMicrobatchesMax = 12;

struct Pipeline {
  std::vector<PipelineOrder> stages;
  int microbatches;
  std::string name;
};

void for_each_pipeline(const std::vector<OrderFunction>& orders,
                       const std::function<void(const Pipeline&)>& check_one) {
  for (std::size_t which = 0; which < orders.size(); ++which) {
    for (int count = 1; count <= kStagesMax; ++count) {
      for (int microbatches = 1; microbatches <= kMicrobatchesMax; ++microbatches) {
        Pipeline one{{},
                     microbatches,
                     "order " + std::to_string(which) + ", stages " + std::to_string(count) +
                         ", micro-batches " + std::to_string(microbatches)};
        for (int index = 0; index < count; ++index) {
          one.stages.push_back(orders[which]({index, count}, microbatches));
        }
        SCOPED_TRACE(one.name);
        check_one(one);
      }
    }
  }
}

std::vector<int> microbatches_of(Action kind, const PipelineOrder& order) {
  std::vector<int> found;
  for (const PipelineAction& one : order) {
    if (one.kind == kind) found.push_back(one.microbatch);
  }
  return found;
}

std::vector<int> all_of(const Pipeline& pipeline) {
  std::vector<int> all;
  for (int i = 0; i < pipeline.microbatches; ++i) all.push_back(i);
  return all;
}

// The messages that the stage exchanges with the next one, or with the one before.
PipelineOrder link_of(const PipelineOrder& order, bool with_next) {
  PipelineOrder messages;
  for (const PipelineAction& one : order) {
    if (with_next && one.kind == Action::kSendOutput) messages.push_back(one);
    if (with_next && one.kind == Action::kReceiveGradient) messages.push_back(one);
    if (!with_next && one.kind == Action::kReceiveInput) {
      messages.push_back({Action::kSendOutput, one.microbatch});
    }
    if (!with_next && one.kind == Action::kSendGradient) {
      messages.push_back({Action::kReceiveGradient, one.microbatch});
    }
  }
  return messages;
}

// Runs all stages with messages that block both ends until both have come. True if all end.
bool ends_with_blocking_messages(const Pipeline& pipeline) {
  const auto& stages = pipeline.stages;
  std::vector<std::size_t> next(stages.size());
  // The action that the stage waits in, or null.
  const auto waiting = [&](std::size_t stage) {
    return next[stage] < stages[stage].size() ? &stages[stage][next[stage]] : nullptr;
  };
  const auto meets = [&](std::size_t stage, Action kind, int microbatch) {
    const PipelineAction* const one = stage < stages.size() ? waiting(stage) : nullptr;
    return one && *one == PipelineAction{kind, microbatch};
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
      const PipelineAction* const one = waiting(stage);
      if (!one) continue;
      if (one->kind == Action::kForward || one->kind == Action::kBackward) {
        ++next[stage];
        has_moved = true;
      } else if ((one->kind == Action::kSendOutput &&
                  meets(stage + 1, Action::kReceiveInput, one->microbatch)) ||
                 (one->kind == Action::kReceiveGradient &&
                  meets(stage + 1, Action::kSendGradient, one->microbatch))) {
        ++next[stage];
        ++next[stage + 1];
        has_moved = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (waiting(stage)) return false;
  }
  return true;
}

// The most micro-batches that have had their forward and not their backward.
int most_in_flight(const PipelineOrder& order) {
  int now = 0, most = 0;
  for (const PipelineAction& one : order) {
    if (one.kind == Action::kForward) most = std::max(most, ++now);
    if (one.kind == Action::kBackward) --now;
  }
  return most;
}

const std::vector<OrderFunction> kTraining = {gpipe_order, one_f_one_b_order};
const std::vector<OrderFunction> kAll = {gpipe_order, one_f_one_b_order, forward_order};

TEST(PipelineOrderTest, EveryMicrobatchHasAForwardBeforeItsBackward) {
  for_each_pipeline(kTraining, [](const Pipeline& pipeline) {
    for (const PipelineOrder& order : pipeline.stages) {
      EXPECT_EQ(microbatches_of(Action::kForward, order), all_of(pipeline));
      EXPECT_EQ(microbatches_of(Action::kBackward, order), all_of(pipeline));
      for (int i = 0; i < pipeline.microbatches; ++i) {
        const auto place = [&](Action kind) {
          return std::find(order.begin(), order.end(), PipelineAction{kind, i});
        };
        EXPECT_LT(place(Action::kForward), place(Action::kBackward));
      }
    }
  });
}

TEST(PipelineOrderTest, AMessageIsReceivedBeforeItsUseAndSentAfterItsComputation) {
  for_each_pipeline(kAll, [](const Pipeline& pipeline) {
    for (const PipelineOrder& order : pipeline.stages) {
      std::map<std::pair<Action, int>, std::size_t> place;
      for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT_TRUE(place.insert({{order[i].kind, order[i].microbatch}, i}).second);
      }
      for (const auto& [one, at] : place) {
        const auto& [kind, i] = one;
        if (kind == Action::kReceiveInput) {
          EXPECT_LT(at, place.at({Action::kForward, i}));
        }
        if (kind == Action::kSendOutput) {
          EXPECT_GT(at, place.at({Action::kForward, i}));
        }
        if (kind == Action::kReceiveGradient) {
          EXPECT_LT(at, place.at({Action::kBackward, i}));
        }
        if (kind == Action::kSendGradient) {
          EXPECT_GT(at, place.at({Action::kBackward, i}));
        }
      }
    }
  });
}

TEST(PipelineOrderTest, BothEndsOfALinkHaveTheSameMessagesInTheSameOrder) {
  for_each_pipeline(kAll, [](const Pipeline& pipeline) {
    const auto& stages = pipeline.stages;
    for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
      EXPECT_EQ(link_of(stages[i], true), link_of(stages[i + 1], false)) << "stage " << i;
      EXPECT_FALSE(link_of(stages[i], true).empty());
    }
    EXPECT_TRUE(link_of(stages.front(), false).empty());
    EXPECT_TRUE(link_of(stages.back(), true).empty());
  });
}

TEST(PipelineOrderTest, EndsEvenIfEveryMessageBlocksBothEnds) {
  for_each_pipeline(
      kAll, [](const Pipeline& pipeline) { EXPECT_TRUE(ends_with_blocking_messages(pipeline)); });
}

TEST(PipelineOrderTest, TheNextInputArrivesDuringAForward) {
  for_each_pipeline(kAll, [](const Pipeline& pipeline) {
    for (std::size_t stage = 1; stage < pipeline.stages.size(); ++stage) {
      const PipelineOrder& order = pipeline.stages[stage];
      for (int i = 0; i + 1 < pipeline.microbatches; ++i) {
        const auto forward =
            std::find(order.begin(), order.end(), PipelineAction{Action::kForward, i});
        EXPECT_EQ(*(forward - 1), (PipelineAction{Action::kReceiveInput, i + 1}));
      }
    }
  });
}

TEST(PipelineOrderTest, OneForwardOneBackwardKeepsAtMostOneMicrobatchForEachLaterStage) {
  for_each_pipeline({one_f_one_b_order}, [](const Pipeline& pipeline) {
    const int count = static_cast<int>(pipeline.stages.size());
    for (int index = 0; index < count; ++index) {
      EXPECT_EQ(most_in_flight(pipeline.stages[static_cast<std::size_t>(index)]),
                std::min(pipeline.microbatches, count - index));
    }
  });
  for_each_pipeline({gpipe_order}, [](const Pipeline& pipeline) {
    for (const PipelineOrder& order : pipeline.stages) {
      EXPECT_EQ(most_in_flight(order), pipeline.microbatches);
    }
  });
}

TEST(PipelineOrderTest, ForwardOnlyHasNoBackward) {
  for_each_pipeline({forward_order}, [](const Pipeline& pipeline) {
    for (const PipelineOrder& order : pipeline.stages) {
      EXPECT_EQ(microbatches_of(Action::kForward, order), all_of(pipeline));
      EXPECT_THAT(microbatches_of(Action::kBackward, order), ElementsAre());
      EXPECT_THAT(microbatches_of(Action::kReceiveGradient, order), ElementsAre());
    }
  });
}

TEST(PipelineOrderTest, TheFirstOfTwoStagesAlternatesAfterTwoForwards) {
  using enum PipelineAction::Kind;
  EXPECT_THAT(one_f_one_b_order({0, 2}, 3),
              ElementsAre(PipelineAction{kForward, 0}, PipelineAction{kSendOutput, 0},
                          PipelineAction{kForward, 1}, PipelineAction{kSendOutput, 1},
                          PipelineAction{kReceiveGradient, 0}, PipelineAction{kBackward, 0},
                          PipelineAction{kForward, 2}, PipelineAction{kSendOutput, 2},
                          PipelineAction{kReceiveGradient, 1}, PipelineAction{kBackward, 1},
                          PipelineAction{kReceiveGradient, 2}, PipelineAction{kBackward, 2}));
}

}  // namespace
}  // namespace distrun::internal
