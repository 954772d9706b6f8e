// for_each_tensor() finds the tensors in a value, such as an argument or the result of a module's
// forward().
//
//     std::pair<at::Tensor, std::vector<at::Tensor>> output = …;
//     for_each_tensor(output, [&](at::Tensor& tensor) { tensor = tensor.to(device); });
//
// These types are supported, in any nesting:
//   - tensors, numbers and strings
//   - std::optional, unique_ptr and shared_ptr (the object that they point to)
//   - pair, tuple, variant and reference_wrapper
//   - ranges that store their elements (array, vector, map, …), and torch::OrderedDict
//   - trivially copyable types (durations, a struct of numbers), which contain no tensor
//
// To support your own type, write a function next to it:
//
//     struct Output { at::Tensor logits; std::vector<at::Tensor> hidden; std::string name; };
//
//     template <class Visit>
//     void visit_tensors(Output& output, const Visit& visit) {
//       visit(output.logits);
//       visit(output.hidden);                  // Any supported type.
//     }
//
// For a type without tensors, write an empty function.  For a type from another library, write the
// function in namespace distrun, as visit_packed_sequence.h does.
//
// With other types, for_each_tensor() does not compile, and KnowsTensors<T> is false.  Types whose
// tensors cannot be replaced are not supported.  Examples are const tensors, and views that create
// their elements.  Types that contain themselves, such as a tree, are not supported either.
//
// PyTorch source: torch/nn/parallel/distributed.py (lists, tuples, dicts and dataclasses).
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <variant>

#include <ATen/core/Tensor.h>

#include "distrun/detail/value_kind.h"

namespace distrun {

namespace internal {

template <class Value, class Function>
void visit(Value& value, const Function& function) {
  constexpr ValueKind kind = value_kind<Value>();
  static_assert(kind != ValueKind::kUnknown,
                "the tensors in this value cannot be found, or not be replaced: write a "
                "visit_tensors() for its type, see distrun/visit_tensors.h");
  [[maybe_unused]] const TensorVisitor<Function> deeper(function);
  if constexpr (kind == ValueKind::kTensor) {
    function(value);
  } else if constexpr (kind == ValueKind::kOwn) {
    visit_tensors(value, deeper);
  } else if constexpr (kind == ValueKind::kPointer) {
    if (value) deeper(*value);
  } else if constexpr (kind == ValueKind::kReference) {
    deeper(value.get());
  } else if constexpr (kind == ValueKind::kVariant) {
    if (!value.valueless_by_exception()) std::visit(deeper, value);
  } else if constexpr (kind == ValueKind::kTuple) {
    std::apply([&](auto&... element) { (deeper(element), ...); }, value);
  } else if constexpr (kind == ValueKind::kRange) {
    for (auto& element : value) deeper(element);
  } else if constexpr (kind == ValueKind::kItem) {
    deeper(value.value());
  }
}

}  // namespace internal

template <class Function>
template <class Value>
void TensorVisitor<Function>::operator()(Value& within) const {
  internal::visit(within, *function_);
}

// Satisfied if for_each_tensor() can find and replace the tensors in an object of type T.
template <class T>
concept KnowsTensors = internal::knows_tensors<std::remove_reference_t<T>>();

// Calls function(tensor) for each tensor in `value`, in order, including undefined tensors.  The
// function may replace the tensors.
template <class Value, class Function>
requires KnowsTensors<Value> && std::invocable<const Function&, at::Tensor&>
void for_each_tensor(Value& value, const Function& function) { internal::visit(value, function); }

}  // namespace distrun
