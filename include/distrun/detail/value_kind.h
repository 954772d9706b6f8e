// Classifies types, so that for_each_tensor() (visit_tensors.h) knows where they have tensors.
#pragma once

#if __cplusplus < 202002L
#error "distrun needs C++20: compile with -std=c++20"
#endif

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace distrun {

// The second argument of a visit_tensors() function.  The function must call this visitor with each
// member that may have tensors.
template <class Function>
class TensorVisitor {
 public:
  // Creates a visitor that calls `function` for each tensor.  `function` must outlive the visitor.
  explicit TensorVisitor(const Function& function) : function_(&function) {}
  // Visits the tensors in `within`.
  template <class Value>
  void operator()(Value& within) const;

 private:
  const Function* function_;
};

namespace internal {

enum class ValueKind {
  kUnknown,
  kPlain,      // Has no tensors.
  kTensor,     // A tensor that can be replaced.
  kOwn,        // Has a visit_tensors() function.
  kPointer,    // A std::optional or a smart pointer, which may be empty.
  kReference,  // std::reference_wrapper.
  kVariant,
  kTuple,  // A std::tuple or a std::pair.
  kRange,
  kItem,  // An item of a torch::OrderedDict.
};

using AnyFunction = void (*)(at::Tensor&);

template <class T>
concept HasVisitTensors = requires(T& value, const TensorVisitor<AnyFunction>& visitor) {
  visit_tensors(value, visitor);
};

template <class T>
concept IsComplete = requires {
  sizeof(T);
};

template <class T, template <class...> class Template>
inline constexpr bool is_specialization = false;
template <template <class...> class Template, class... T>
inline constexpr bool is_specialization<Template<T...>, Template> = true;

template <class T>
concept IsPointer = is_specialization<std::remove_const_t<T>, std::optional> || requires(T& value) {
  typename T::element_type;
  static_cast<bool>(value);
  { *value } -> std::same_as<typename T::element_type&>;
};

template <class T>
concept IsItem = requires(T& value) {
  value.key();
  value.pair();
  {&value.value()};  // Not a temporary.
};

template <class T>
inline constexpr bool is_container = std::is_array_v<T>;
template <template <class...> class Template, class... T>
inline constexpr bool is_container<Template<T...>> = true;
template <template <class, auto> class Template, class T, auto size>
inline constexpr bool is_container<Template<T, size>> = true;

// A container of a library that stores its elements, so that a replaced element stays replaced.  A
// user's class derived from a container is not one, because it may have more than its elements.
template <class T>
concept IsRange = is_container<std::remove_const_t<T>> && std::ranges::forward_range<T> &&
    std::is_lvalue_reference_v<std::ranges::range_reference_t<T>>;

// A range such as std::vector<bool> or std::views::iota, whose elements are temporary numbers.
template <class T>
concept IsRangeOfMadeNumbers =
    std::ranges::range<T> && !std::is_lvalue_reference_v<std::ranges::range_reference_t<T>> &&
    std::is_arithmetic_v<std::ranges::range_value_t<T>>;

// Numbers, strings and other trivially copyable types.  A tensor is not trivially copyable, because
// it counts its owners.
template <class T>
constexpr bool is_plain() {
  using Bare = std::remove_const_t<T>;
  if constexpr (std::convertible_to<T&, std::string_view> || std::same_as<Bare, c10::Scalar>) {
    return true;
  } else if constexpr (std::ranges::range<T>) {
    return IsRangeOfMadeNumbers<T>;
  } else {
    // A type that cannot be assigned may have a reference as a member.
    return std::is_trivially_copyable_v<Bare> && std::is_copy_assignable_v<Bare> &&
           !std::is_pointer_v<Bare>;
  }
}

// Returns the kind of T.  T may be const, but then its tensors cannot be replaced.
template <class T>
constexpr ValueKind value_kind() {
  using Bare = std::remove_const_t<T>;
  using enum ValueKind;
  if constexpr (HasVisitTensors<T>) {
    return kOwn;
  } else if constexpr (!IsComplete<T>) {
    return kUnknown;
  } else if constexpr (std::derived_from<Bare, at::Tensor>) {
    return std::is_const_v<T> ? kUnknown : kTensor;
  } else if constexpr (is_specialization<Bare, std::reference_wrapper>) {
    return kReference;
  } else if constexpr (is_specialization<Bare, std::variant>) {
    return kVariant;
  } else if constexpr (is_specialization<Bare, std::tuple> || is_specialization<Bare, std::pair>) {
    return kTuple;
  } else if constexpr (IsPointer<T>) {
    return kPointer;
  } else if constexpr (is_plain<T>()) {
    return kPlain;
  } else if constexpr (IsRange<T>) {
    return kRange;
  } else {
    return IsItem<T> ? kItem : kUnknown;
  }
}

template <class... T>
struct Types {};

template <class T, std::size_t... i>
constexpr auto element_types(std::index_sequence<i...>) {
  if constexpr (value_kind<T>() == ValueKind::kTuple) {
    return Types<std::tuple_element_t<i, T>...>();
  } else {
    return Types<std::variant_alternative_t<i, T>...>();
  }
}

// Returns the types of the elements of T, including const and references.
template <class T>
constexpr auto types_within() {
  constexpr ValueKind kind = value_kind<T>();
  if constexpr (kind == ValueKind::kTuple) {
    return element_types<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (kind == ValueKind::kVariant) {
    return element_types<T>(std::make_index_sequence<std::variant_size_v<T>>());
  } else if constexpr (kind == ValueKind::kPointer) {
    return Types<decltype(*std::declval<T&>())>();
  } else if constexpr (kind == ValueKind::kReference) {
    return Types<decltype(std::declval<T&>().get())>();
  } else if constexpr (kind == ValueKind::kRange) {
    return Types<std::ranges::range_reference_t<T>>();
  } else if constexpr (kind == ValueKind::kItem) {
    return Types<decltype(std::declval<T&>().value())>();
  } else {
    return Types<>();
  }
}

// Whether all tensors in a T can be found.  `Outer` are the types that enclose T.  A type that
// encloses itself, such as a tree or std::filesystem::path, is not supported.
template <class T, class... Outer>
constexpr bool knows_tensors();

template <class... Outer, class... T>
constexpr bool knows_all(Types<T...>) {
  return (knows_tensors<std::remove_reference_t<T>, Outer...>() && ...);
}

template <class T, class... Outer>
constexpr bool knows_tensors() {
  constexpr bool is_within_itself = (std::same_as<std::remove_const_t<T>, Outer> || ...);
  if constexpr (is_within_itself || value_kind<T>() == ValueKind::kUnknown) {
    return false;
  } else {
    return knows_all<std::remove_const_t<T>, Outer...>(types_within<T>());
  }
}

}  // namespace internal
}  // namespace distrun
