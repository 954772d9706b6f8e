// The operators of c10d and _c10d_functional in a trace.  For the files of this folder.
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

// An operator of c10d or _c10d_functional.
bool is_of_c10d(const c10::FunctionSchema& schema);

// An operator of c10d whose last result is a work.
bool is_collective(const c10::FunctionSchema& schema);

// An operator whose results are valid after _c10d_functional.wait_tensor.
bool is_functional_collective(const c10::FunctionSchema& schema);
bool is_wait_tensor(const c10::FunctionSchema& schema);

// The tensors of a collective's node, whatever its operator returns: those that it writes on this
// rank, in order, or if it writes none, those that it reads.  They are in its first or second
// argument.
std::vector<at::Tensor> tensors_of_collective(at::ArrayRef<c10::IValue> arguments);

// None: the value is not a c10d::ProcessGroup.
c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::IValue& value);

// Ignores the old values of its first argument.
bool overwrites_its_first(const c10::FunctionSchema& schema);

// Writes nothing on this rank: a send, a barrier, a gather to another rank.
bool only_reads(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments);

// The collective whose n-th tensor `wait` waits for; none if it is not one of c10d.
const Node* collective_waited_for(const Node& wait);

// Calls `act`, in which a backend starts or ends a collective.  Its error becomes a
// c10::DistBackendError that begins with `where`, unless it is already a c10::DistError.
void in_collective(const std::string& where, const std::function<void()>& act);

// All defined tensors, also those in lists of lists.
void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

}  // namespace distrun::internal
