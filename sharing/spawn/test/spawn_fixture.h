// What the tests of spawn() have in common.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "common/os/unique_fd.h"

namespace distrun::testing {

// Far more than anything here takes.
inline constexpr std::chrono::seconds kLong{60};

// Of any process, not only of a child.
class Watch {
 public:
  // Throws where it cannot be watched, unless it has ended.
  explicit Watch(pid_t pid);
  bool has_ended(std::chrono::milliseconds within = kLong) const;
  void send(int signal) const;

 private:
  UniqueFd pidfd_;
};

// What a process can leave behind.  Shared memory is a memfd: it is gone when nobody has it open.
struct HeldResources {
  std::set<std::string> descriptors;  // Of this process, with what is behind them.
  bool has_children = false;

  static HeldResources now();
  friend bool operator==(const HeldResources&, const HeldResources&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HeldResources& held);
};

template <class Exception, class Call>
Exception exception_of(const Call& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception;
  }
  throw std::logic_error("nothing was thrown");
}

// Never returns.
void wait_to_be_ended();

}  // namespace distrun::testing
