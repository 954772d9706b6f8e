// Finds the tensors in a value of any type: what a module's forward() takes and returns.
//
//     std::pair<at::Tensor, std::vector<at::Tensor>> output = …;
//     for_each_tensor(output, [](at::Tensor& tensor) { tensor = tensor.to(device); });
//
// Known are tensors, numbers, strings, std::optional, unique_ptr and shared_ptr (what they point
// to), pair, tuple, array, variant, every range (vector, map, …), torch::OrderedDict, and all of
// these within each other.  A type of your own becomes known by a function beside it:
//
//     struct Output { at::Tensor logits; std::vector<at::Tensor> hidden; int steps; };
//
//     template <class Visit>
//     void visit_tensors(Output& output, const Visit& visit) {
//       visit(output.logits);
//       visit(output.hidden);                  // Anything that is known itself.
//     }
//
// A type that holds none has an empty one.  A type that is not known is an error of the compiler:
// KnowsTensors<Output> is false.
//
// It is what torch.nn.parallel.distributed finds in lists, tuples, dicts and dataclasses.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <ATen/core/Tensor.h>

namespace distrun {

namespace internal {

// What asks whether somebody has written visit_tensors() for a type.
struct AnyVisitor {
  template <class Value>
  void operator()(Value&) const {}
};

template <class T>
concept IsTensor = std::derived_from<T, at::Tensor>;

// Nothing to be found in them.
template <class T>
concept IsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T> ||
    std::same_as<T, std::monostate> || std::convertible_to<T&, std::string_view> ||
    std::same_as<T, c10::Scalar> || std::same_as<T, c10::Device>;

template <class T>
concept HasVisitTensors = requires(T& value) {
  visit_tensors(value, AnyVisitor());
};

template <class T>
concept IsTupleLike = requires {
  std::tuple_size<T>::value;
};

template <class T>
concept IsPointerLike = requires(T& value) {
  typename T::element_type;
  {static_cast<bool>(value)};
  { *value } -> std::same_as<typename T::element_type&>;
};

template <class T>
concept IsItem = requires(T& value) {
  value.key();
  value.value();
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsVariant : std::false_type {};
template <class... T>
struct IsVariant<std::variant<T...>> : std::true_type {};

template <class T>
constexpr bool knows_tensors();

template <class T, std::size_t... i>
constexpr bool knows_elements(std::index_sequence<i...>) {
  return (knows_tensors<std::remove_cvref_t<std::tuple_element_t<i, T>>>() && ...);
}

template <class... T>
constexpr bool knows_alternatives(std::variant<T...>*) {
  return (knows_tensors<T>() && ...);
}

template <class T>
constexpr bool knows_tensors() {
  if constexpr (IsTensor<T> || HasVisitTensors<T> || IsPlain<T>) {
    return true;
  } else if constexpr (IsOptional<T>::value) {
    return knows_tensors<typename T::value_type>();
  } else if constexpr (IsVariant<T>::value) {
    return knows_alternatives(static_cast<T*>(nullptr));
  } else if constexpr (IsPointerLike<T>) {
    return knows_tensors<std::remove_cv_t<typename T::element_type>>();
  } else if constexpr (IsTupleLike<T>) {
    return knows_elements<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (std::ranges::range<T>) {
    return knows_tensors<std::remove_cvref_t<std::ranges::range_reference_t<T>>>();
  } else if constexpr (IsItem<T>) {
    return knows_tensors<std::remove_cvref_t<decltype(std::declval<T&>().value())>>();
  } else {
    return false;
  }
}

template <class Value, class Function>
void visit(Value& value, const Function& function);

template <class Value, class Function>
void visit_elements(Value& value, const Function& function) {
  std::apply([&](auto&... element) { (internal::visit(element, function), ...); }, value);
}

template <class Value, class Function>
void visit(Value& value, const Function& function) {
  using T = std::remove_const_t<Value>;
  const auto deeper = [&](auto& within) { internal::visit(within, function); };
  if constexpr (IsPlain<T>) {
    // Nothing.
  } else if constexpr (IsTensor<T>) {
    static_assert(!std::is_const_v<Value>, "a tensor that is const cannot be replaced");
    function(value);
  } else if constexpr (HasVisitTensors<T>) {
    visit_tensors(value, deeper);
  } else if constexpr (IsVariant<T>::value) {
    std::visit(deeper, value);
  } else if constexpr (IsOptional<T>::value || IsPointerLike<T>) {
    if (value) deeper(*value);
  } else if constexpr (IsTupleLike<T>) {
    visit_elements(value, function);
  } else if constexpr (std::ranges::range<T>) {
    for (auto&& element : value) deeper(element);
  } else {
    deeper(value.value());
  }
}

}  // namespace internal

// The tensors in a T can be found.
template <class T>
concept KnowsTensors = internal::knows_tensors<std::remove_cvref_t<T>>();

// Calls function(tensor) for each, in the order in which they lie; undefined ones too.  It may
// replace them.
template <class Value, class Function>
requires KnowsTensors<Value> && std::invocable<const Function&, at::Tensor&>
void for_each_tensor(Value& value, const Function& function) { internal::visit(value, function); }

}  // namespace distrun
