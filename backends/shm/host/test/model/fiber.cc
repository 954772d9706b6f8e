#include "backends/shm/host/test/model/fiber.h"

#include <cstddef>
#include <utility>

#include <cxxabi.h>

namespace distrun::shm::model {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

// The fiber that starts: makecontext() only passes ints.
Fiber* beginner = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> act)
    : act_(std::move(act)), stack_(std::make_unique<char[]>(kStackBytes)) {}

void Fiber::resume() {
  const Exceptions outside = exceptions_of_thread();
  exceptions_of_thread() = exceptions_;
  if (_setjmp(outside_) == 0) {
    if (has_started_) _longjmp(inside_, 1);
    has_started_ = true;
    beginner = this;
    ::getcontext(&first_);
    first_.uc_stack = {.ss_sp = stack_.get(), .ss_flags = 0, .ss_size = kStackBytes};
    first_.uc_link = nullptr;
    ::makecontext(&first_, &Fiber::begin, 0);
    ::setcontext(&first_);
  }
  exceptions_of_thread() = outside;
}

void Fiber::leave() {
  exceptions_ = exceptions_of_thread();
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

void Fiber::restart() {
  has_started_ = has_ended_ = false;
  exceptions_ = {};
}

Fiber::Exceptions& Fiber::exceptions_of_thread() {
  return *reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
}

void Fiber::begin() {
  Fiber& me = *beginner;
  me.act_();
  me.has_ended_ = true;
  me.leave();
}

}  // namespace distrun::shm::model
