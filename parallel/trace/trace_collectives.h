// The operators of c10d and _c10d_functional in a trace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/trace_graph.h"

namespace distrun::internal {

bool is_of_c10d(const c10::FunctionSchema& schema);

// Whether an operator of c10d returns a Work.
bool is_collective(const c10::FunctionSchema& schema);

// Whether results are valid only after _c10d_functional.wait_tensor.
bool is_functional_collective(const c10::FunctionSchema& schema);
bool is_wait_tensor(const c10::FunctionSchema& schema);

// The tensors that a collective writes on this rank, in order; if it writes none, those that it
// reads. They are in the first or second argument.
std::vector<at::Tensor> tensors_of_collective(at::ArrayRef<c10::IValue> arguments);

// Null if the value is not a group.
c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::IValue& value);

// Whether it ignores the old values of its first argument.
bool overwrites_its_first(const c10::FunctionSchema& schema);

// Whether it writes nothing on this rank: a send, a barrier, a gather to another rank.
bool only_reads(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments);

// The collective of c10d whose tensor `wait` waits for, or null.
const Node* collective_waited_for(const Node& wait);

// Turns a backend's error in `act` into a c10::DistBackendError that starts with `where`.
void in_collective(const std::string& where, const std::function<void()>& act);

// Appends the defined tensors, including those in nested lists and tuples.
void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

}  // namespace distrun::internal
