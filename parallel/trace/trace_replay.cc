#include "parallel/trace/trace_replay.h"

#include <exception>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/begun_collective.h"
#include "parallel/trace/trace_collectives.h"
#include "parallel/trace/trace_values.h"

namespace distrun::internal {

namespace {

using Tensors = std::vector<at::Tensor>;

void check_input(std::size_t i, const TensorFacts& given, const TensorFacts& expected) {
  const auto check = [&](bool is_right, const char* what, const auto& its, const auto& other) {
    TORCH_CHECK_VALUE(is_right, "replay: inputs[", i, "] has ", what, " ", its, "; expected ",
                      other, ", as in the recording");
  };
  check(given.sizes == expected.sizes, "sizes", at::IntArrayRef(given.sizes),
        at::IntArrayRef(expected.sizes));
  check(given.dtype == expected.dtype, "dtype", given.dtype, expected.dtype);
  check(given.device == expected.device, "device", given.device, expected.device);
  check(given.layout == expected.layout, "layout", given.layout, expected.layout);
  check(given.strides == expected.strides, "strides", at::IntArrayRef(given.strides),
        at::IntArrayRef(expected.strides));
  TORCH_CHECK_VALUE(given == expected, "replay: inputs[", i,
                    "] has another conjugate or negative bit than in the recording; clone() it");
}

class Replay {
 public:
  Replay(const Graph& graph, const Tensors& inputs) : graph_(graph), inputs_(inputs) {
    for (const Node& node : graph.nodes()) {
      for (const Node* const input : node.inputs()) last_user_[input] = &node;
    }
  }

  // After an exception, waits for running collectives: they still write to memory, and half a
  // message would break a connection.
  ~Replay() {
    for (const auto& [node, begun] : works_) {
      try {
        if (begun.work) wait_in(begun.group, *begun.work);
      } catch (const std::exception&) {
        // The first error is already being thrown.
      }
    }
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  Tensors run() {
    Tensors results;
    for (const Node& node : graph_.nodes()) {
      if (node.kind == Node::Kind::kOutput) {
        for (const Argument& one : node.args.at(0).items()) {
          results.push_back(value_of(one).toTensor());
        }
        break;
      }
      values_[&node] = run(node);
      for (const Node* const input : node.inputs()) {
        if (last_user_.at(input) == &node) values_.erase(input);
      }
      if (!last_user_.contains(&node)) values_.erase(&node);
    }
    return results;
  }

 private:
  struct UnderWay {
    c10::intrusive_ptr<c10d::ProcessGroup> group;
    c10::intrusive_ptr<c10d::Work> work;
  };

  c10::IValue run(const Node& node) {
    if (node.kind == Node::Kind::kPlaceholder) return inputs_.at(next_input_++);
    if (node.kind == Node::Kind::kGetAttr) return node.constant;
    if (!node.op) return item(node);
    if (const Node* const collective = collective_waited_for(node)) {
      wait_for(*collective);
      return value_of(node.args.at(0));
    }
    return call(node);
  }

  c10::IValue item(const Node& node) const {
    const c10::IValue whole = value_of(node.args.at(0));
    const auto index = static_cast<std::size_t>(value_of(node.args.at(1)).toInt());
    return whole.isTuple() ? whole.toTupleRef().elements().at(index) : whole.toListRef().at(index);
  }

  c10::IValue call(const Node& node) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(node.op->name.c_str(),
                                                                   node.op->overload_name.c_str());
    torch::jit::Stack stack = arguments(node, op.schema());
    const auto call = [&] {
      if (!is_of_c10d(op.schema())) return op.callBoxed(stack);
      in_collective("replay: %" + node.name, [&] { op.callBoxed(stack); });
    };
    if (!is_collective(op.schema())) {
      call();
      if (stack.empty()) return {};
      return stack.size() == 1 ? std::move(stack.front()) : c10::ivalue::Tuple::create(stack);
    }
    std::vector<c10::IValue> tensors;
    for (at::Tensor& one : tensors_of_collective(stack)) tensors.emplace_back(std::move(one));
    UnderWay begun;
    for (const c10::IValue& one : stack) {
      if (!begun.group) begun.group = group_of(one);
    }
    call();
    begun.work = stack.back().toCustomClass<c10d::Work>();
    works_[&node] = std::move(begun);
    return c10::ivalue::Tuple::create(std::move(tensors));
  }

  torch::jit::Stack arguments(const Node& node, const c10::FunctionSchema& schema) const {
    torch::jit::Stack stack;
    auto next_kwarg = node.kwargs.begin();
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::Argument& its = schema.arguments()[i];
      if (!its.kwarg_only() && i < node.args.size()) {
        stack.push_back(value_of(node.args[i]));
      } else if (next_kwarg != node.kwargs.end() && next_kwarg->first == its.name()) {
        stack.push_back(value_of((next_kwarg++)->second));
      } else {
        stack.push_back(its.default_value().value());
      }
    }
    return stack;
  }

  c10::IValue value_of(const Argument& argument) const {
    if (const Node* const node = argument.node()) return values_.at(node);
    if (const auto* literal = std::get_if<Argument::Literal>(&argument.value())) {
      return literal->value;
    }
    if (const auto* list = std::get_if<Argument::List>(&argument.value())) {
      c10::impl::GenericList values(list->element_type);
      for (const Argument& one : list->items) values.push_back(value_of(one));
      return values;
    }
    const auto& group = std::get<Argument::Group>(argument.value());
    const auto held = group.process_group.lock();
    TORCH_CHECK(held, "replay: the group ", group.name,
                " that the trace was made in has been destroyed; make the trace again");
    return c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(
        static_cast<c10d::ProcessGroup*>(held.get()));
  }

  void wait_for(const Node& collective) {
    const auto found = works_.find(&collective);
    if (found == works_.end()) return;  // Another of its tensors has been waited for.
    const UnderWay begun = std::move(found->second);
    works_.erase(found);
    if (!begun.work) return;
    in_collective("replay: %" + collective.name, [&] { wait_in(begun.group, *begun.work); });
  }

  const Graph& graph_;
  const Tensors& inputs_;
  std::size_t next_input_ = 0;
  std::unordered_map<const Node*, const Node*> last_user_;
  std::unordered_map<const Node*, c10::IValue> values_;
  std::unordered_map<const Node*, UnderWay> works_;  // Not waited for yet.
};

}  // namespace

Tensors replay(const Graph& graph, const Tensors& inputs) {
  std::vector<const Node*> expected;
  for (const Node& node : graph.nodes()) {
    if (node.kind == Node::Kind::kPlaceholder) expected.push_back(&node);
  }
  TORCH_CHECK_VALUE(inputs.size() == expected.size(), "replay: there are ", inputs.size(),
                    " inputs; expected ", expected.size(), ", as in the recording");
  check_inputs("replay", inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(i, TensorFacts::of(inputs[i]), *expected[i]->like);
  }
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return Replay(graph, inputs).run();
}

void check_inputs(const char* function, const Tensors& inputs) {
  std::unordered_map<const c10::StorageImpl*, std::vector<std::size_t>> by_memory;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs[i].defined(), function, ": inputs[", i,
                      "] is not defined; expected a tensor");
    const c10::StorageImpl* const storage = storage_of(inputs[i]);
    if (storage == nullptr) continue;
    auto& others = by_memory[storage];
    for (const std::size_t other : others) {
      TORCH_CHECK_VALUE(!share_memory(inputs[i], inputs[other]), function, ": inputs[", i,
                        "] shares memory with inputs[", other,
                        "]; expected separate memory: clone() it");
    }
    others.push_back(i);
  }
}

}  // namespace distrun::internal
