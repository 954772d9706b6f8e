// The order in which a stage of a pipeline works, and exchanges messages with its neighbours. Pure.
//
//     for (const PipelineAction& one : one_f_one_b_order({.index = 1, .count = 4}, 8))
//     perform(one);
//
// Let two neighbours be a link. Both ends of a link start their messages in the same order, so a
// backend that runs messages of a pair one after the other, as NCCL, does not block forever. A
// stage starts to receive the next input before it computes, so the message arrives meanwhile.
//
// PyTorch source: torch/distributed/pipelining/schedules.py.
#pragma once

#include <vector>

namespace distrun::internal {

struct PipelineAction {
  enum class Kind {
    kReceiveInput,  // Starts to receive; kForward waits for it.
    kForward,
    kSendOutput,
    kReceiveGradient,  // Starts to receive; kBackward waits for it.
    kBackward,
    kSendGradient,
  };
  Kind kind = Kind::kForward;
  int microbatch = 0;

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

struct StagePlace {
  int index = 0;
  int count = 1;  // Stages.

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }
};

using PipelineOrder = std::vector<PipelineAction>;

// All forwards, then all backwards.
PipelineOrder gpipe_order(const StagePlace& stage, int microbatches);

// Some forwards, so that the last stage has one; then a backward and a forward in turn. At most
// `count - index` micro-batches have had their forward and not their backward.
PipelineOrder one_f_one_b_order(const StagePlace& stage, int microbatches);

// All forwards, without backward.
PipelineOrder forward_order(const StagePlace& stage, int microbatches);

}  // namespace distrun::internal
