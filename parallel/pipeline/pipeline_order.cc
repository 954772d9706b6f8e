#include "parallel/pipeline/pipeline_order.h"

#include <algorithm>
#include <utility>

namespace distrun::internal {

namespace {

using Kind = PipelineAction::Kind;

class OrderBuilder {
 public:
  OrderBuilder(const StagePlace& stage, int microbatches)
      : stage_(stage), microbatches_(microbatches) {}

  void forward(int microbatch) {
    if (microbatch == 0) receive_input(0);
    receive_input(microbatch + 1);
    add(Kind::kForward, microbatch);
    if (!stage_.is_last()) add(Kind::kSendOutput, microbatch);
  }

  void backward(int microbatch) {
    if (!stage_.is_last()) add(Kind::kReceiveGradient, microbatch);
    add(Kind::kBackward, microbatch);
    if (!stage_.is_first()) add(Kind::kSendGradient, microbatch);
  }

  PipelineOrder take() { return std::move(order_); }

 private:
  void receive_input(int microbatch) {
    if (!stage_.is_first() && microbatch < microbatches_) add(Kind::kReceiveInput, microbatch);
  }
  void add(Kind kind, int microbatch) { order_.push_back({kind, microbatch}); }

  const StagePlace stage_;
  const int microbatches_;
  PipelineOrder order_;
};

}  // namespace

PipelineOrder gpipe_order(const StagePlace& stage, int microbatches) {
  OrderBuilder order(stage, microbatches);
  for (int i = 0; i < microbatches; ++i) order.forward(i);
  for (int i = 0; i < microbatches; ++i) order.backward(i);
  return order.take();
}

PipelineOrder one_f_one_b_order(const StagePlace& stage, int microbatches) {
  OrderBuilder order(stage, microbatches);
  const int ahead = std::min(microbatches, stage.count - stage.index);
  for (int i = 0; i < ahead; ++i) order.forward(i);
  for (int i = 0; i < microbatches; ++i) {
    order.backward(i);
    if (ahead + i < microbatches) order.forward(ahead + i);
  }
  return order.take();
}

PipelineOrder forward_order(const StagePlace& stage, int microbatches) {
  OrderBuilder order(stage, microbatches);
  for (int i = 0; i < microbatches; ++i) order.forward(i);
  return order.take();
}

}  // namespace distrun::internal
