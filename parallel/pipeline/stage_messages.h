// The messages of a stage of a pipeline to its neighbours, during one step.
//
// An output goes to the next stage, and its gradient comes back. Before the first output of a step,
// an announcement says what the step is, so that stages that do different things fail. If a stage
// has other sizes than in the step before, it says so there, and then announces the sizes of every
// micro-batch of the step. Otherwise, the next stage knows them.
//
//     announcement:  kind of step, micro-batches, count of numbers, 0      always before output 0
//     numbers:       pack_facts()                                          if their count is not 0
//     tensors
//
// All messages between two stages have one tag, because they start in the same order at both ends
// (pipeline_order.h). Sends do not block: the work of a send is kept, and waited for when the
// receiver must have it. A message that is under way keeps its tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/work.h"
#include "parallel/pipeline/activation_facts.h"
#include "parallel/pipeline/pipeline_order.h"

namespace distrun::internal {

enum class StepKind : std::int64_t { kTrain = 1, kForward = 2 };

class StageMessages {
 public:
  StageMessages(Group group, const StagePlace& stage, at::Device device, int microbatches);

  // Begins a step. `inputs` are the facts of each micro-batch on the first stage, empty elsewhere.
  void begin(StepKind kind, std::vector<ActivationFactsList> inputs);
  // Waits for all sends.
  void finish();

  // Before an announcement that this rank does not know, blocks until it has arrived.
  //
  // Throws: c10::ValueError if the stage before runs another kind of step.
  void receive_input(int microbatch);
  // Returns new tensors, which require a gradient in training if they did at the stage before.
  std::vector<at::Tensor> wait_for_input(int microbatch);
  // Throws: c10::ValueError if facts have changed that an announcement of this step denied.
  void send_output(int microbatch, const std::vector<at::Tensor>& outputs);

  void receive_gradient(int microbatch);
  // Returns a gradient for each output; undefined if it requires none.
  std::vector<at::Tensor> wait_for_gradient(int microbatch);
  // Sends the gradients of inputs that require one; zeros if undefined.
  void send_gradient(int microbatch, const std::vector<at::Tensor>& gradients);

 private:
  // Messages that have started, by tensor.
  struct UnderWay {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;

    void wait();
  };
  // One direction, by micro-batch.
  using Direction = std::vector<UnderWay>;

  void receive_announcement(int microbatch);
  void send_announcement(int microbatch);
  Work receive(const at::Tensor& tensor, int stage) const;
  Work send(const at::Tensor& tensor, int stage) const;
  // Waits for a send that the receiver has had time for, so that a rank keeps few.
  void wait_for_old(Direction& sends, int microbatch) const;
  static std::size_t at(int microbatch) { return static_cast<std::size_t>(microbatch); }

  const Group group_;
  const StagePlace stage_;
  const at::Device device_;
  const int microbatches_;
  StepKind kind_ = StepKind::kTrain;
  bool announces_inputs_ = true;                       // In this step.
  bool announces_outputs_ = true;                      // In this step.
  std::vector<ActivationFactsList> inputs_, outputs_;  // By micro-batch; of earlier steps at first.
  Direction inputs_received_, outputs_sent_, gradients_received_, gradients_sent_, announced_;
};

}  // namespace distrun::internal
