// A function with a separate stack, which stops in the middle and goes on later. All fibers of a
// thread take turns: one runs, until it leaves.
//
//     Fiber fiber([&] {
//       step_one();
//       fiber.leave();
//       step_two();
//     });
//     fiber.resume();     // Step one.
//     fiber.resume();     // Step two.
//     fiber.has_ended();  // true
//
// A fiber that has not ended can be destroyed or restarted. Objects on its stack are then not
// destroyed.
#pragma once

#include <array>
#include <csetjmp>
#include <cstdint>
#include <functional>
#include <memory>

#include <ucontext.h>

namespace distrun::shm::model {

class Fiber {
 public:
  // No exception may leave `act`.
  explicit Fiber(std::function<void()> act);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs `act` until it leaves or ends. Not for a fiber that has ended.
  void resume();
  // Lets resume() return. Called by `act`.
  void leave();
  bool has_ended() const { return has_ended_; }

  // The next resume() calls `act` anew.
  void restart();

 private:
  using Exceptions = std::array<std::uint64_t, 2>;  // A __cxa_eh_globals.

  static Exceptions& exceptions_of_thread();
  static void begin();

  const std::function<void()> act_;
  const std::unique_ptr<char[]> stack_;
  ucontext_t first_{};
  jmp_buf inside_{};
  jmp_buf outside_{};
  Exceptions exceptions_{};  // While it does not run.
  bool has_started_ = false;
  bool has_ended_ = false;
};

}  // namespace distrun::shm::model
