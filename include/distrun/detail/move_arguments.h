// Replaces the tensors in a call's arguments, for the wrappers of modules.
#pragma once

#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <ATen/core/Tensor.h>

#include "distrun/visit_tensors.h"

namespace distrun::internal {

template <class T>
constexpr bool holds_tensors();

template <class... T>
constexpr bool some_hold_tensors(Types<T...>) {
  return (holds_tensors<std::remove_reference_t<T>>() || ...);
}

template <class T>
constexpr bool is_optional = is_specialization<std::remove_const_t<T>, std::optional>;

// Whether a T itself has tensors.  A copy of such a T has its own tensors, so moving them does not
// change the caller's tensors.  A pointer, a reference or a view only leads to the caller's
// tensors.
template <class T>
constexpr bool holds_tensors() {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (kind == ValueKind::kTensor || kind == ValueKind::kOwn) {
    return true;
  } else if constexpr (kind == ValueKind::kVariant || kind == ValueKind::kTuple || is_optional<T>) {
    return some_hold_tensors(types_within<T>());
  } else if constexpr (kind == ValueKind::kRange) {
    return !std::ranges::view<T> && some_hold_tensors(types_within<T>());
  } else {
    return false;
  }
}

// Replaces the defined tensors that `value` itself has by `change(tensor)`.
template <class T, class Change>
void change_tensors(T& value, const Change& change) {
  const auto replace = [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = change(tensor);
  };
  const auto deeper = [&](auto& within) { internal::change_tensors(within, change); };
  if constexpr (!holds_tensors<T>()) {
    // Nothing.
  } else if constexpr (value_kind<T>() == ValueKind::kTensor) {
    replace(value);
  } else if constexpr (value_kind<T>() == ValueKind::kOwn) {
    for_each_tensor(value, replace);
  } else if constexpr (value_kind<T>() == ValueKind::kVariant) {
    if (!value.valueless_by_exception()) std::visit(deeper, value);
  } else if constexpr (value_kind<T>() == ValueKind::kTuple) {
    std::apply([&](auto&... element) { (deeper(element), ...); }, value);
  } else if constexpr (is_optional<T>) {
    if (value) deeper(*value);
  } else {
    for (auto& element : value) deeper(element);
  }
}

// The type of changed(): a copy if the argument has tensors to replace, or else a reference to the
// argument.
template <class Argument>
using Changed =
    std::conditional_t<holds_tensors<std::remove_cvref_t<Argument>>() &&
                           std::is_constructible_v<std::remove_cvref_t<Argument>, Argument>,
                       std::remove_cvref_t<Argument>, Argument&&>;

// Returns the argument, with `change(tensor)` in place of each of its tensors.
template <class Argument, class Change>
Changed<Argument> changed(Argument&& argument, const Change& change) {
  if constexpr (std::is_reference_v<Changed<Argument>>) {
    return std::forward<Argument>(argument);
  } else {
    Changed<Argument> copy = std::forward<Argument>(argument);
    internal::change_tensors(copy, change);
    return copy;
  }
}

}  // namespace distrun::internal
