#include "parallel/trace/trace_collectives.h"

#include <exception>
#include <set>
#include <string_view>

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

namespace distrun::internal {

namespace {

bool begins_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

}  // namespace

bool is_of_c10d(const c10::FunctionSchema& schema) {
  return begins_with(schema.name(), "c10d::") || begins_with(schema.name(), "_c10d_functional");
}

bool is_collective(const c10::FunctionSchema& schema) {
  if (!begins_with(schema.name(), "c10d::") || schema.returns().empty()) return false;
  return schema.returns().back().type()->str() == "__torch__.torch.classes.c10d.Work";
}

bool is_functional_collective(const c10::FunctionSchema& schema) {
  return begins_with(schema.name(), "_c10d_functional::") && !is_wait_tensor(schema);
}

bool is_wait_tensor(const c10::FunctionSchema& schema) {
  return schema.name() == "_c10d_functional::wait_tensor";
}

std::vector<at::Tensor> tensors_of_collective(at::ArrayRef<c10::IValue> arguments) {
  std::vector<at::Tensor> tensors;
  append_tensors(arguments.at(0), tensors);
  if (tensors.empty() && arguments.size() > 1) append_tensors(arguments[1], tensors);
  return tensors;
}

c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::IValue& value) {
  const bool is_group =
      value.isObject() && value.type()->str() == "__torch__.torch.classes.c10d.ProcessGroup";
  if (!is_group) return {};
  return value.toCustomClass<c10d::ProcessGroup>();
}

bool overwrites_its_first(const c10::FunctionSchema& schema) {
  static const std::set<std::string_view> names = {"c10d::allgather_",
                                                   "c10d::_allgather_base_",
                                                   "c10d::allgather_coalesced_",
                                                   "c10d::allgather_into_tensor_coalesced_",
                                                   "c10d::gather_",
                                                   "c10d::gather_into_tensor_",
                                                   "c10d::scatter_",
                                                   "c10d::reduce_scatter_",
                                                   "c10d::_reduce_scatter_base_",
                                                   "c10d::reduce_scatter_tensor_coalesced_",
                                                   "c10d::alltoall_",
                                                   "c10d::alltoall_base_",
                                                   "c10d::recv_",
                                                   "c10d::recv_any_source_"};
  return names.contains(schema.name());
}

bool only_reads(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments) {
  if (schema.name() == "c10d::send" || schema.name() == "c10d::barrier") return true;
  std::vector<at::Tensor> outputs;
  append_tensors(arguments.at(0), outputs);
  return outputs.empty();
}

const Node* collective_waited_for(const Node& wait) {
  if (wait.op_name() != "_c10d_functional.wait_tensor") return nullptr;
  const Node* const part = wait.args.at(0).node();
  if (part == nullptr || part->target != "operator.getitem") return nullptr;
  const Node* const whole = part->args.at(0).node();
  return whole != nullptr && begins_with(whole->op_name(), "c10d.") ? whole : nullptr;
}

void in_collective(const std::string& where, const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::DistBackendError& error) {
    const std::string text = error.what_without_backtrace();
    if (begins_with(text, where.c_str())) throw;
    TORCH_CHECK_WITH(DistBackendError, false, where, ": ", text);
  } catch (const c10::DistError&) {
    throw;
  } catch (const c10::Error& error) {
    TORCH_CHECK_WITH(DistBackendError, false, where, ": ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    TORCH_CHECK_WITH(DistBackendError, false, where, ": ", error.what());
  }
}

void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) append_tensors(one, tensors);
  } else if (value.isTuple()) {
    for (const c10::IValue& one : value.toTupleRef().elements()) append_tensors(one, tensors);
  }
}

}  // namespace distrun::internal
