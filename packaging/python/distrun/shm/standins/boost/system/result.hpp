// What the sources of distrun.shm use of boost::system::result, so that they need no Boost.
#pragma once

#include <utility>
#include <variant>

namespace boost {

struct source_location {};

namespace system {

template <class T, class E>
class result {
 public:
  result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  result(E error) : held_(std::in_place_index<1>, std::move(error)) {}
  // Of a result with another value type that converts, such as a derived class.
  template <class U>
  requires std::is_convertible_v<U, T> result(U&& value)
      : held_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool has_value() const { return held_.index() == 0; }
  bool has_error() const { return !has_value(); }
  explicit operator bool() const { return has_value(); }

  T& operator*() { return *std::get_if<0>(&held_); }
  const T& operator*() const { return *std::get_if<0>(&held_); }
  T* operator->() { return std::get_if<0>(&held_); }
  const T* operator->() const { return std::get_if<0>(&held_); }
  const E& error() const { return *std::get_if<1>(&held_); }

 private:
  std::variant<T, E> held_;
};

template <class E>
class result<void, E> : public result<std::monostate, E> {
 public:
  result() : result<std::monostate, E>(std::monostate()) {}
  result(E error) : result<std::monostate, E>(std::move(error)) {}
};

}  // namespace system
}  // namespace boost
