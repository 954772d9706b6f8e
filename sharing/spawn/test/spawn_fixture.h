// Helpers for the tests of spawn().
#pragma once

#include <chrono>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "common/os/unique_fd.h"

namespace distrun::testing {

// Exceeds any correct wait in a test.
inline constexpr std::chrono::seconds kLong{60};

// Watches any process, child or not.
class Watch {
 public:
  // Throws if the process cannot be watched, unless it has ended.
  explicit Watch(pid_t pid);
  bool has_ended(std::chrono::milliseconds within = kLong) const;
  void send(int signal) const;

 private:
  UniqueFd pidfd_;
};

// What a process could leak. Shared memory is a memfd, so a leak is an open descriptor.
struct HeldResources {
  std::set<std::string> descriptors;  // With their targets.
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
