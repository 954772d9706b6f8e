#include "sharing/spawn/process_set.h"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/os/packet_socket.h"
#include "sharing/memory/test/child_process.h"
#include "sharing/spawn/worker_message.h"

namespace distrun::internal {
namespace {

// A child that only waits; the test writes to its end of the control socket.
struct Child {
  explicit Child(ProcessSet& set, int index) {
    const pid_t pid = ::fork();
    while (pid == 0) ::pause();
    auto [control, control_of_child] = make_packet_sockets().value();
    says = std::move(control_of_child);
    ::fcntl(control.get(), F_SETFL, O_NONBLOCK);
    StartedProcess process{.index = index, .pid = pid};
    process.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    process.control = std::move(control);
    added = &set.add(std::move(process));
  }

  void raise(const std::string& text, std::int64_t at) const {
    const WorkerMessage report = WorkerHasRaised{"std::runtime_error", text, at};
    ASSERT_TRUE(send_packet(says.get(), to_packet(report), {}));
  }

  UniqueFd says;
  const StartedProcess* added = nullptr;
};

TEST(ProcessSetTest, AForkCannotJoinItsParentsProcesses) {
  ProcessSet set{std::chrono::seconds(10)};
  const Child process(set, 0);
  testing::ChildProcess fork([&](int) {
    EXPECT_EQ(testing::error_of<c10::Error>([&] { set.join(deadline_after({})); }),
              "join: these processes were started by another process, of which this one is a fork");
    return !::testing::Test::HasFailure();
  });
  EXPECT_TRUE(fork.succeeded());
  send_signal(*process.added, SIGKILL);
}

TEST(ProcessSetTest, ReportsTheExceptionThatWasThrownFirst) {
  ProcessSet set{std::chrono::seconds(10)};
  const Child consequence(set, 0), cause(set, 1), later(set, 2);
  cause.raise("the cause", 100);
  consequence.raise("the consequence", 200);
  later.raise("another", 300);
  send_signal(*consequence.added, SIGKILL);
  try {
    set.join(deadline_after(std::chrono::minutes(1)));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ProcessRaisedException& raised) {
    EXPECT_EQ(raised.index(), 1);
    EXPECT_EQ(raised.text(), "the cause");
  }
}

}  // namespace
}  // namespace distrun::internal
