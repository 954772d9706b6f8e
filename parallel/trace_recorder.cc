#include "parallel/trace_recorder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backends/begun_collective.h"
#include "parallel/trace_collectives.h"
#include "parallel/trace_text.h"

namespace distrun::internal {

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
const c10::DebugInfoKind kSlot = c10::DebugInfoKind::TEST_INFO_2;

// Operators that are called here are not recorded.
using Unrecorded = c10::impl::ExcludeDispatchKeyGuard;

void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Unrecorded guard(kKey);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

void record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Recorder* const recorder = Recorder::current();
  if (recorder == nullptr) return run(op, keys, stack);
  recorder->call(op, keys, stack);
}

void have_operators_recorded() {
  // Never destroyed: the dispatcher may be gone by then.
  static auto* const library = [] {
    auto* its = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    its->fallback(torch::CppFunction::makeFromBoxedFunction<&record>());
    return its;
  }();
  static_cast<void>(library);
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// What comes back may be a view of it.
bool is_viewed(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && !argument.alias_info()->isWrite();
}

// Operators of aten that only tell a number are none: the number is what the function goes on with.
bool is_node(const c10::FunctionSchema& schema) {
  if (schema.name().rfind("aten::", 0) != 0) return schema.name().rfind("profiler::", 0) != 0;
  const auto returns_tensors = [](const c10::Argument& one) {
    return one.type()->str().find("Tensor") != std::string::npos;
  };
  return std::any_of(schema.returns().begin(), schema.returns().end(), returns_tensors) ||
         std::any_of(schema.arguments().begin(), schema.arguments().end(), is_written);
}

// Where its elements begin and end, in bytes of the storage.
std::pair<std::int64_t, std::int64_t> extent_of(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const auto bytes = static_cast<std::int64_t>(tensor.element_size());
  return {tensor.storage_offset() * bytes, (last + 1) * bytes};
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b)) return true;
  if (storage_of(a) == nullptr || storage_of(a) != storage_of(b)) return false;
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto [from, to] = extent_of(a);
  const auto [other_from, other_to] = extent_of(b);
  return from < other_to && other_from < to;
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  append_tensors(value, tensors);
  return tensors;
}

bool is_group(const c10::IValue& value) {
  return value.isObject() && value.type()->str() == "__torch__.torch.classes.c10d.ProcessGroup";
}

std::string_view base_name(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.substr(name.find("::") + 2);
}

// New memory comes from it that has no values yet.
bool makes_room(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  const auto& arguments = schema.arguments();
  return (name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0) &&
         std::none_of(arguments.begin(), arguments.end(), is_written);
}

// What it was there before does not matter.
bool overwrites(const c10::FunctionSchema& schema) {
  constexpr std::array<std::string_view, 13> names = {
      "copy_",      "fill_",        "zero_",   "normal_", "uniform_", "random_",    "bernoulli_",
      "geometric_", "exponential_", "resize_", "set_",    "cauchy_",  "log_normal_"};
  return std::find(names.begin(), names.end(), base_name(schema)) != names.end();
}

// Only how large it is.
bool looks_at_size(const c10::FunctionSchema& schema) {
  const std::string_view name = base_name(schema);
  return name.rfind("new_", 0) == 0 || name.ends_with("_like");
}

}  // namespace

struct Recorder::Call {
  const c10::FunctionSchema& schema;
  std::vector<c10::IValue> arguments;
};

// A collective that nobody has waited for.
struct Recorder::UnderWay {
  std::string name;                     // Of its node.
  std::vector<const Node*> parts;       // What its tensors are the values of.
  std::vector<at::Tensor> tensors;      // None of them is used before it has been waited for.
  std::vector<at::Tensor> copied_to;    // Nor of these.
  bool is_only_read = false;            // They may be read all the time.
  c10::intrusive_ptr<c10d::Work> work;  // None: wait_tensor waits for it.
};

class Recorder::Listener : public BegunCollective::Listener {
 public:
  Listener(std::weak_ptr<Recorder> recorder, std::weak_ptr<UnderWay> begun)
      : recorder_(std::move(recorder)), begun_(std::move(begun)) {}

  void on_wait(const std::function<void()>& wait) override {
    {
      const Unrecorded guard(kKey);
      wait();
    }
    const auto recorder = recorder_.lock();
    if (recorder == nullptr || Recorder::current() != recorder.get()) return;
    if (const auto begun = begun_.lock()) recorder->add_waits(begun);
  }

  void ends_by(BegunCollective::WorkPtr work, std::vector<at::Tensor> tensors) override {
    const auto begun = begun_.lock();
    if (begun == nullptr) return;
    begun->work = std::move(work);
    begun->copied_to = std::move(tensors);
  }

 private:
  const std::weak_ptr<Recorder> recorder_;
  const std::weak_ptr<UnderWay> begun_;
};

Recorder* Recorder::current() {
  return dynamic_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(kSlot));
}

void Recorder::add_input(const at::Tensor& tensor) {
  values_.set(tensor, graph_->add_placeholder(TensorFacts::of(tensor)));
}

void Recorder::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto given = torch::jit::last(*stack, schema.arguments().size());
  const Call call{schema, given.vec()};
  std::vector<Argument> arguments;
  {
    const std::lock_guard lock(mutex_);
    wait_for_used(call);
    keep_what_was_written_unseen(call);
    for (std::size_t i = 0; is_node(schema) && i < call.arguments.size(); ++i) {
      arguments.push_back(argument(call.arguments[i], *schema.arguments()[i].real_type()));
    }
  }
  run(op, keys, stack);
  if (!is_node(schema)) return;
  const std::lock_guard lock(mutex_);
  add_values(call, *stack, add_call(call, std::move(arguments)));
}

void Recorder::finish(const std::vector<at::Tensor>& results) {
  const std::lock_guard lock(mutex_);
  for (const auto& begun : std::vector(under_way_)) wait_for(begun);
  std::vector<Argument> values;
  for (const at::Tensor& one : results) {
    if (!one.defined()) {
      values.emplace_back(Argument::Literal{.value = one});
      continue;
    }
    keep_if_unwritten(one);
    values.emplace_back(value_of(one));
  }
  graph_->add_output(std::move(values));
}

const Node* Recorder::value_of(const at::Tensor& tensor) {
  if (const Node* const known = values_.find(tensor)) return known;
  const Node* const node = graph_->add_constant(tensor);
  values_.set(tensor, node);
  return node;
}

Argument Recorder::argument(const c10::IValue& value, const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    return argument(value, *optional->getElementType());
  }
  if (value.isTensor() && value.toTensor().defined()) return Argument(value_of(value.toTensor()));
  if (is_group(value)) {
    const auto group = value.toCustomClass<c10d::ProcessGroup>();
    return Argument(Argument::Group{
        .name = group->getGroupName(),
        .process_group = c10::weak_intrusive_ptr<c10::intrusive_ptr_target>(group)});
  }
  if (value.isTensor() || tensors_of(value).empty()) {
    return Argument(Argument::Literal{.value = value, .text = text_of(value, type)});
  }
  Argument::List list{.element_type = value.toList().elementType()};
  for (const c10::IValue& one : value.toListRef()) {
    list.items.push_back(argument(one, *list.element_type));
  }
  return Argument(std::move(list));
}

void Recorder::add_results(const c10::IValue& value, const Node* node) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) values_.set(value.toTensor(), node);
  } else if (value.isList() && !tensors_of(value).empty()) {
    std::size_t index = 0;
    for (const c10::IValue& one : value.toListRef()) {
      add_results(one, graph_->add_getitem(node, index++));
    }
  }
}

const Node* Recorder::add_call(const Call& call, std::vector<Argument> given) {
  const auto& schema = call.schema.arguments();
  const auto is_default = [&](std::size_t i) {
    const auto* literal = std::get_if<Argument::Literal>(&given[i].value());
    return schema[i].default_value() && literal != nullptr &&
           literal->text == text_of(*schema[i].default_value(), *schema[i].real_type());
  };
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::size_t args_needed = 0;  // All that follow are defaults.
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_needed = !is_default(i);
    if (!schema[i].kwarg_only()) {
      args.push_back(std::move(given[i]));
      if (is_needed) args_needed = args.size();
    } else if (is_needed) {
      kwargs.emplace_back(schema[i].name(), std::move(given[i]));
    }
  }
  args.erase(args.begin() + static_cast<std::ptrdiff_t>(args_needed), args.end());
  return graph_->add_call(call.schema.operator_name(), std::move(args), std::move(kwargs));
}

void Recorder::add_values(const Call& call, torch::jit::Stack& stack, const Node* node) {
  if (is_collective(call.schema)) return add_collective(node, call, stack);
  const auto results = torch::jit::last(stack, call.schema.returns().size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    add_results(results[i], results.size() == 1 ? node : graph_->add_getitem(node, i));
  }
  if (makes_room(call.schema) && storage_of(results[0].toTensor()) != nullptr) {
    const at::Tensor& room = results[0].toTensor();
    unwritten_.insert_or_assign(storage_of(room), std::pair(room, node));
  }
  if (!is_functional_collective(call.schema)) return;
  const auto begun = std::make_shared<UnderWay>();
  for (const c10::IValue& one : results) append_tensors(one, begun->tensors);
  under_way_.push_back(begun);
}

void Recorder::add_collective(const Node* node, const Call& call, torch::jit::Stack& stack) {
  const auto begun = std::make_shared<UnderWay>();
  begun->name = node->name;
  begun->tensors = tensors_of_collective(call.arguments);
  begun->is_only_read = only_reads(call.schema, call.arguments);
  for (std::size_t i = 0; i < begun->tensors.size(); ++i) {
    begun->parts.push_back(graph_->add_getitem(node, i));
    values_.set(begun->tensors[i], begun->parts.back());
  }
  auto work = stack.back().toCustomClass<c10d::Work>();
  if (!work) return;
  begun->work = c10::make_intrusive<BegunCollective>(
      std::move(work), std::make_shared<Listener>(weak_from_this(), begun));
  stack.back() = begun->work;
  under_way_.push_back(begun);
}

void Recorder::wait_for_used(const Call& call) {
  if (under_way_.empty()) return;
  for (const auto& begun : std::vector(under_way_)) {
    if (uses(call, *begun)) wait_for(begun);
  }
  std::erase_if(under_way_, [](const auto& one) { return !one->work && one->tensors.empty(); });
}

bool Recorder::uses(const Call& call, UnderWay& begun) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::Argument& its = call.schema.arguments()[i];
    if (is_viewed(its) || (begun.is_only_read && !is_written(its))) continue;
    for (const at::Tensor& used : tensors_of(call.arguments[i])) {
      const auto shares = [&](const at::Tensor& one) { return share_memory(one, used); };
      if (is_wait_tensor(call.schema) && !begun.work) {
        std::erase_if(begun.tensors, shares);
      } else if (std::any_of(begun.tensors.begin(), begun.tensors.end(), shares) ||
                 std::any_of(begun.copied_to.begin(), begun.copied_to.end(), shares)) {
        return true;
      }
    }
  }
  return false;
}

void Recorder::wait_for(const std::shared_ptr<UnderWay>& begun) {
  // Another's wait may have ended it.
  if (std::find(under_way_.begin(), under_way_.end(), begun) == under_way_.end()) return;
  const at::AutoDispatchBelowADInplaceOrView past_autograd;
  if (begun->work) {
    const auto work = begun->work;
    in_collective("trace: %" + begun->name, [&] { work->wait(); });
    return add_waits(begun);
  }
  std::erase(under_way_, begun);
  static const auto wait = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("_c10d_functional::wait_tensor", "")
                               .typed<at::Tensor(const at::Tensor&)>();
  for (const at::Tensor& one : begun->tensors) wait.call(one);
}

void Recorder::add_waits(const std::shared_ptr<UnderWay>& begun) {
  const std::lock_guard lock(mutex_);
  if (std::erase(under_way_, begun) == 0) return;
  for (std::size_t i = 0; i < begun->parts.size(); ++i) {
    const Node* const wait = graph_->add_call(
        c10::OperatorName("_c10d_functional::wait_tensor", ""), {Argument(begun->parts[i])});
    values_.set(begun->tensors[i], wait);
  }
}

void Recorder::keep_what_was_written_unseen(const Call& call) {
  if (unwritten_.empty() || looks_at_size(call.schema)) return;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const c10::Argument& its = call.schema.arguments()[i];
    if (is_viewed(its)) continue;
    const bool is_overwritten = is_written(its) ? its.is_out() || overwrites(call.schema)
                                                : i == 0 && overwrites_its_first(call.schema);
    for (const at::Tensor& one : tensors_of(call.arguments[i])) {
      if (is_overwritten) {
        unwritten_.erase(storage_of(one));
      } else {
        keep_if_unwritten(one);
      }
    }
  }
}

void Recorder::keep_if_unwritten(const at::Tensor& tensor) {
  const auto found = unwritten_.find(storage_of(tensor));
  if (found == unwritten_.end()) return;
  const auto [room, node] = found->second;
  unwritten_.erase(found);
  const Unrecorded guard(kKey);
  const at::AutoDispatchBelowADInplaceOrView past_autograd;
  graph_->become_copy_of(node, room.clone());
}

RecorderScope::RecorderScope(const std::shared_ptr<Recorder>& recorder)
    : recorder_(kSlot,
                [&] {
                  TORCH_CHECK(Recorder::current() == nullptr,
                              "trace: this thread records a trace already; end that one first");
                  have_operators_recorded();
                  return recorder;
                }()),
      key_(kKey) {}

}  // namespace distrun::internal
