// What a trace knows of the operators of c10d and _c10d_functional.  For the files of this folder.
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

// An operator of c10d that tells its work: its last result.
bool is_collective(const c10::FunctionSchema& schema);

// An operator whose results are there when _c10d_functional.wait_tensor has been called for them.
bool is_functional_collective(const c10::FunctionSchema& schema);
bool is_wait_tensor(const c10::FunctionSchema& schema);

// What a collective's node stands for, whatever its operator returns: the tensors that it writes
// here, one after the other; where it writes none, those that it reads.  They are in its first
// argument, or in the second.
std::vector<at::Tensor> tensors_of_collective(at::ArrayRef<c10::IValue> arguments);

// None: the value is no c10d::ProcessGroup.
c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::IValue& value);

// What its first argument held before does not matter.
bool overwrites_its_first(const c10::FunctionSchema& schema);

// It writes nothing here: a send, a barrier, a gather to another rank.
bool only_reads(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments);

// The collective whose n-th tensor `wait` waits for; none: it waits for none of c10d's.
const Node* collective_waited_for(const Node& wait);

// Calls `act`, in which a backend begins or ends a collective.  What it throws becomes a
// c10::DistBackendError that begins with `where`, unless it is a c10::DistError already.
void in_collective(const std::string& where, const std::function<void()>& act);

// All that are defined, also in lists of lists.
void append_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

}  // namespace distrun::internal
