// Moves the tensors in a call's arguments to a device, for DistributedDataParallel.
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

// Moves the tensors that `value` itself has to the device.
template <class T>
void move_tensors(T& value, const c10::Device& device) {
  const auto move = [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(device);
  };
  const auto deeper = [&](auto& within) { internal::move_tensors(within, device); };
  if constexpr (!holds_tensors<T>()) {
    // Nothing.
  } else if constexpr (value_kind<T>() == ValueKind::kTensor) {
    move(value);
  } else if constexpr (value_kind<T>() == ValueKind::kOwn) {
    for_each_tensor(value, move);
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

// The type of moved(): a copy if the argument has tensors to move, or else a reference to the
// argument.
template <class Argument>
using Moved =
    std::conditional_t<holds_tensors<std::remove_cvref_t<Argument>>() &&
                           std::is_constructible_v<std::remove_cvref_t<Argument>, Argument>,
                       std::remove_cvref_t<Argument>, Argument&&>;

// Returns the argument, with its tensors on the device.
template <class Argument>
Moved<Argument> moved(Argument&& argument, const c10::Device& device) {
  if constexpr (std::is_reference_v<Moved<Argument>>) {
    return std::forward<Argument>(argument);
  } else {
    Moved<Argument> copy = std::forward<Argument>(argument);
    internal::move_tensors(copy, device);
    return copy;
  }
}

}  // namespace distrun::internal
