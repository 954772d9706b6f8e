#include "parallel/trace/trace_recorder.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backends/group/begun_collective.h"
#include "parallel/trace/trace_collectives.h"
#include "parallel/trace/trace_text.h"

namespace distrun::internal {

namespace {

// LibTorch registers no kernels for this key. The dispatcher throws if another library has
// registered a fallback.
constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::Fake;
const c10::DebugInfoKind kSlot = c10::DebugInfoKind::TEST_INFO_2;

using Unrecorded = c10::impl::ExcludeDispatchKeyGuard;

void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Unrecorded guard(kRecorderKey);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorderKey),
                     stack);
}

// Whether the kernel only calls other operators. Without autograd the dispatcher does not decompose
// it, so record() does.
bool is_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) return false;
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorderKey);
  return !op.hasKernelForDispatchKey(below.highestPriorityTypeId());
}

void record(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  TraceRecorder* const recorder = TraceRecorder::current();
  if (recorder == nullptr) return run(op, keys, stack);
  if (is_composite(op, keys)) {
    return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  }
  recorder->call(op, keys, stack);
}

void have_operators_recorded() {
  // Never destroyed, because the dispatcher may be destroyed first. Without `used`, the compiler
  // drops the unread pointer, and LeakSanitizer reports the library.
  [[gnu::used]] static auto* const library = [] {
    auto* its = new torch::Library(torch::Library::IMPL, "_", kRecorderKey, __FILE__, __LINE__);
    its->fallback(torch::CppFunction::makeFromBoxedFunction<&record>());
    return its;
  }();
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Whether the operator may return a view of the argument.
bool is_viewed(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && !argument.alias_info()->isWrite();
}

// Operators of aten that neither return nor write a tensor are not nodes: the function continues
// with the recorded number.
bool is_node(const c10::FunctionSchema& schema) {
  if (schema.name().rfind("aten::", 0) != 0) return schema.name().rfind("profiler::", 0) != 0;
  const auto returns_tensors = [](const c10::Argument& one) {
    return one.type()->str().find("Tensor") != std::string::npos;
  };
  return std::any_of(schema.returns().begin(), schema.returns().end(), returns_tensors) ||
         std::any_of(schema.arguments().begin(), schema.arguments().end(), is_written);
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  append_tensors(value, tensors);
  return tensors;
}

std::string_view base_name(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.substr(name.find("::") + 2);
}

// Whether it allocates uninitialized memory.
bool makes_room(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  const auto& arguments = schema.arguments();
  return (name.rfind("aten::empty", 0) == 0 || name.rfind("aten::new_empty", 0) == 0) &&
         std::none_of(arguments.begin(), arguments.end(), is_written);
}

// Whether it ignores the old values of the tensor that it writes.
bool overwrites(const c10::FunctionSchema& schema) {
  constexpr std::array<std::string_view, 13> names = {
      "copy_",      "fill_",        "zero_",   "normal_", "uniform_", "random_",    "bernoulli_",
      "geometric_", "exponential_", "resize_", "set_",    "cauchy_",  "log_normal_"};
  return std::find(names.begin(), names.end(), base_name(schema)) != names.end();
}

// Such memory, for example from_blob()'s, may be freed at any time.
bool borrows_memory(const at::Tensor& tensor) {
  const c10::StorageImpl* const storage = storage_of(tensor);
  return storage != nullptr && storage->data() != nullptr &&
         storage->data_ptr().get_context() == nullptr;
}

at::Tensor copy_of(const at::Tensor& tensor) {
  const Unrecorded guard(kRecorderKey);
  const at::AutoDispatchBelowADInplaceOrView past_autograd;
  return tensor.clone();
}

// Whether it reads no elements of its arguments.
bool looks_at_size(const c10::FunctionSchema& schema) {
  const std::string_view name = base_name(schema);
  return name.rfind("new_", 0) == 0 || name.ends_with("_like");
}

}  // namespace

struct TraceRecorder::Call {
  const c10::FunctionSchema& schema;
  std::vector<c10::IValue> arguments;
  bool is_node;
  bool changes_layout;
};

// A collective that has not been waited for.
struct TraceRecorder::UnderWay {
  std::string name;
  std::vector<const Node*> parts;       // The nodes whose values `tensors` are.
  std::vector<at::Tensor> tensors;      // Must be waited for before they are used.
  std::vector<at::Tensor> copied_to;    // `work` copies into these: wait for them, too.
  bool is_only_read = false;            // Reading `tensors` requires no wait.
  c10::intrusive_ptr<c10d::Work> work;  // Null: wait_tensor waits for it.
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  bool has_ended_unseen = false;  // A thread that is not recorded has waited for it.
};

class TraceRecorder::Listener : public BegunCollective::Listener {
 public:
  Listener(std::weak_ptr<TraceRecorder> recorder, std::weak_ptr<UnderWay> begun)
      : recorder_(std::move(recorder)), begun_(std::move(begun)) {}

  void on_wait(const std::function<void()>& wait) override {
    {
      const Unrecorded guard(kRecorderKey);
      wait();
    }
    const auto recorder = recorder_.lock();
    const auto begun = begun_.lock();
    if (recorder == nullptr || begun == nullptr) return;
    if (TraceRecorder::current() == recorder.get()) return recorder->add_waits(begun);
    const std::lock_guard lock(recorder->mutex_);
    begun->has_ended_unseen = true;
  }

  void ends_by(BegunCollective::WorkPtr work, std::vector<at::Tensor> tensors) override {
    const auto recorder = recorder_.lock();
    const auto begun = begun_.lock();
    if (recorder == nullptr || begun == nullptr) return;
    const std::lock_guard lock(recorder->mutex_);
    begun->work = std::move(work);
    begun->copied_to = std::move(tensors);
  }

 private:
  const std::weak_ptr<TraceRecorder> recorder_;
  const std::weak_ptr<UnderWay> begun_;
};

TraceRecorder* TraceRecorder::current() {
  return dynamic_cast<TraceRecorder*>(c10::ThreadLocalDebugInfo::get(kSlot));
}

void TraceRecorder::add_input(const at::Tensor& tensor) {
  values_.set(tensor, graph_->add_placeholder(TensorFacts::of(tensor)));
}

void TraceRecorder::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto given = torch::jit::last(*stack, schema.arguments().size());
  const Call call{schema, given.vec(), is_node(schema), op.hasTag(at::Tag::inplace_view)};
  wait_for_used(call);
  std::vector<Argument> arguments;
  {
    const std::lock_guard lock(mutex_);
    if (!has_ended_) arguments = arguments_of(call);
  }
  run(op, keys, stack);
  const std::lock_guard lock(mutex_);
  if (call.is_node && !has_ended_) add_node(call, *stack, std::move(arguments));
}

std::vector<Argument> TraceRecorder::arguments_of(const Call& call) {
  keep_what_was_written_unseen(call);
  std::vector<Argument> arguments;
  for (std::size_t i = 0; call.is_node && i < call.arguments.size(); ++i) {
    const c10::Argument& its = call.schema.arguments()[i];
    const c10::IValue& value = call.arguments[i];
    if (call.changes_layout && is_written(its) && value.isTensor()) {
      arguments.emplace_back(own_value_of(value.toTensor()));
    } else {
      arguments.push_back(argument(value, *its.real_type()));
    }
  }
  return arguments;
}

void TraceRecorder::finish(const std::vector<at::Tensor>& results) {
  wait_for_all();
  const std::lock_guard lock(mutex_);
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
  has_ended_ = true;
}

std::unique_ptr<Graph> TraceRecorder::take_graph() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  return std::move(graph_);
}

const Node* TraceRecorder::value_of(const at::Tensor& tensor) {
  if (const Node* const known = values_.find(tensor)) return known;
  const Node* const node = graph_->add_constant(borrows_memory(tensor) ? copy_of(tensor) : tensor);
  values_.set(tensor, node);
  return node;
}

const Node* TraceRecorder::own_value_of(const at::Tensor& tensor) {
  const Node* const value = value_of(tensor);
  const Node* own = values_.own(tensor);
  if (own == nullptr) {
    // Other tensors share the value in a replay and must keep their layout.
    own = graph_->add_call(c10::OperatorName("aten::detach", ""), {Argument(value)});
    values_.set_own(tensor, own);
  }
  values_.lose_layout(tensor);
  return own;
}

Argument TraceRecorder::argument(const c10::IValue& value, const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    return argument(value, *optional->getElementType());
  }
  if (value.isTensor() && value.toTensor().defined()) return Argument(value_of(value.toTensor()));
  TORCH_CHECK_NOT_IMPLEMENTED(!value.isStorage(),
                              "trace: an operator takes a storage, which is not supported; use "
                              "tensors, for example with set_()");
  if (const auto group = group_of(value)) {
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

void TraceRecorder::add_results(const c10::IValue& value, const Node* node) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) values_.set(value.toTensor(), node);
  } else if (value.isList() && !tensors_of(value).empty()) {
    std::size_t index = 0;
    for (const c10::IValue& one : value.toListRef()) {
      add_results(one, graph_->add_getitem(node, index++));
    }
  }
}

void TraceRecorder::add_node(const Call& call, torch::jit::Stack& stack,
                             std::vector<Argument> arguments) {
  const auto is_default = [&](std::size_t i) {
    const c10::Argument& its = call.schema.arguments()[i];
    const auto* literal = std::get_if<Argument::Literal>(&arguments[i].value());
    return its.default_value() && literal != nullptr &&
           literal->text == text_of(*its.default_value(), *its.real_type());
  };
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::size_t positional = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (call.schema.arguments()[i].kwarg_only()) {
      if (!is_default(i)) kwargs.emplace_back(call.schema.arguments()[i].name(), arguments[i]);
      continue;
    }
    args.push_back(arguments[i]);
    if (!is_default(i)) positional = args.size();
  }
  args.erase(args.begin() + static_cast<std::ptrdiff_t>(positional), args.end());

  const Node* const node =
      graph_->add_call(call.schema.operator_name(), std::move(args), std::move(kwargs));
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

void TraceRecorder::add_collective(const Node* node, const Call& call, torch::jit::Stack& stack) {
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
  for (const c10::IValue& one : call.arguments) {
    if (!begun->group) begun->group = group_of(one);
  }
  begun->work = c10::make_intrusive<BegunCollective>(
      std::move(work), std::make_shared<Listener>(weak_from_this(), begun));
  stack.back() = begun->work;
  under_way_.push_back(begun);
}

void TraceRecorder::wait_for_used(const Call& call) {
  std::vector<std::shared_ptr<UnderWay>> used;
  {
    const std::lock_guard lock(mutex_);
    if (has_ended_ || under_way_.empty()) return;
    std::copy_if(under_way_.begin(), under_way_.end(), std::back_inserter(used),
                 [&](const auto& one) { return uses(call, *one); });
    std::erase_if(under_way_, [](const auto& one) { return !one->work && one->tensors.empty(); });
  }
  for (const auto& one : used) wait_for(one);
}

void TraceRecorder::wait_for_all() {
  std::unique_lock lock(mutex_);
  const std::vector all = under_way_;
  lock.unlock();
  for (const auto& one : all) wait_for(one);
}

bool TraceRecorder::uses(const Call& call, UnderWay& begun) {
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

// Without the lock, because another thread may have to record something first.
void TraceRecorder::wait_for(const std::shared_ptr<UnderWay>& begun) {
  std::unique_lock lock(mutex_);
  // Another wait may have ended it.
  const auto found = std::find(under_way_.begin(), under_way_.end(), begun);
  if (found == under_way_.end()) return;
  const auto work = begun->work;
  const auto tensors = begun->tensors;
  if (!work) under_way_.erase(found);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !begun->has_ended_unseen || begun->copied_to.empty(),
      "trace: a thread that is not recorded waited for %", begun->name,
      " and copied its results; wait on the traced thread, or use contiguous tensors");
  lock.unlock();

  const at::AutoDispatchBelowADInplaceOrView past_autograd;
  if (work) {
    in_collective("trace: %" + begun->name, [&] { wait_in(begun->group, *work); });
    return add_waits(begun);
  }
  static const auto wait = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("_c10d_functional::wait_tensor", "")
                               .typed<at::Tensor(const at::Tensor&)>();
  for (const at::Tensor& one : tensors) wait.call(one);
}

void TraceRecorder::add_waits(const std::shared_ptr<UnderWay>& begun) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || std::erase(under_way_, begun) == 0) return;
  for (std::size_t i = 0; i < begun->parts.size(); ++i) {
    const Node* const wait = graph_->add_call(
        c10::OperatorName("_c10d_functional::wait_tensor", ""), {Argument(begun->parts[i])});
    values_.set(begun->tensors[i], wait);
  }
}

void TraceRecorder::keep_what_was_written_unseen(const Call& call) {
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

void TraceRecorder::keep_if_unwritten(const at::Tensor& tensor) {
  const auto found = unwritten_.find(storage_of(tensor));
  if (found == unwritten_.end()) return;
  const auto [room, node] = found->second;
  unwritten_.erase(found);
  graph_->become_copy_of(node, copy_of(room));
}

RecorderScope::RecorderScope(const std::shared_ptr<TraceRecorder>& recorder)
    : recorder_(kSlot,
                [&] {
                  TORCH_CHECK(
                      TraceRecorder::current() == nullptr,
                      "trace: this thread is already recording a trace; end that one first");
                  have_operators_recorded();
                  return recorder;
                }()),
      key_(kRecorderKey) {}

}  // namespace distrun::internal
