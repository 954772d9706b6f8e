#include "common/os/process_stat.h"

#include <array>
#include <csignal>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace distrun {
namespace {

constexpr ProcUnits kUnits{.ticks_per_second = 100, .page_bytes = 4096};
constexpr const char* kAfterName =
    " S 1 4711 4700 0 -1 4194560 1529 0 0 0 250 75 9 9 20 0 1 0 18 2134016 400 "
    "18446744073709551615";

std::string stat_of(const std::string& name) { return "4711 (" + name + ")" + kAfterName; }

TEST(ProcessStatTest, ReadsStateSessionTimesAndMemory) {
  const auto stat = parse_process_stat(stat_of("python3"), "521 400 300 10 0 90 0\n", kUnits);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->session, 4700);
  EXPECT_EQ(stat->cpu_time, std::chrono::milliseconds(3250));
  EXPECT_EQ(stat->resident_bytes, 400u * 4096);
}

TEST(ProcessStatTest, AcceptsAnyProcessName) {
  for (const std::string name : {"a b", "a) R 9 9 9 9 (b", ")", "((", "a\nb", ""}) {
    const auto stat = parse_process_stat(stat_of(name), "1 2", kUnits);
    ASSERT_TRUE(stat.has_value()) << name;
    EXPECT_EQ(stat->state, 'S') << name;
    EXPECT_EQ(stat->session, 4700) << name;
  }
}

TEST(ProcessStatTest, RejectsTruncatedText) {
  const std::string whole = stat_of("x");
  const std::size_t needed = whole.find(" 75") + 3;
  EXPECT_TRUE(parse_process_stat(whole.substr(0, needed), "1 2", kUnits));
  for (std::size_t size = 0; size < whole.find(" 75"); ++size) {
    EXPECT_FALSE(parse_process_stat(whole.substr(0, size), "1 2", kUnits)) << size;
  }
  std::string malformed = whole;
  malformed.replace(malformed.find("4700"), 4, "what");
  EXPECT_FALSE(parse_process_stat(malformed, "1 2", kUnits));
}

// A zombie has a stat file, but no memory.
TEST(ProcessStatTest, ReportsNoMemoryIfStatmIsEmpty) {
  EXPECT_EQ(parse_process_stat(stat_of("x"), "", kUnits)->resident_bytes, 0u);
  EXPECT_EQ(parse_process_stat(stat_of("x"), "0 0 0 0 0 0 0\n", kUnits)->resident_bytes, 0u);
}

TEST(ProcessStatTest, ReadsThisProcess) {
  ASSERT_EQ(::prctl(PR_SET_NAME, "a) Z 1 (b"), 0);
  const auto stat = read_process_stat(::getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'R');
  EXPECT_EQ(stat->session, ::getsid(0));
  EXPECT_GT(stat->resident_bytes, 100'000u);
}

// A child in its own session, with its own child, waits for a signal.
TEST(ProcessStatTest, FollowsAProcessFromStartToEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    [[maybe_unused]] const auto told = ::write(ends[1], "x", 1);
    for (;;) ::pause();
  }
  std::array<char, 2> both;
  for (std::size_t got = 0; got < 2;) {
    pollfd ready{.fd = ends[0], .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, 10'000), 1);
    got += static_cast<std::size_t>(::read(ends[0], both.data(), both.size()));
  }
  EXPECT_EQ(read_process_stat(child)->session, child);
  EXPECT_EQ(processes_by_session()[child].size(), 2U);
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, nullptr, WUNTRACED), child);
  EXPECT_EQ(read_process_stat(child)->state, 'T');
  ::kill(child, SIGKILL);
  siginfo_t end{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(read_process_stat(child)->state, 'Z');
  EXPECT_EQ(read_process_stat(child)->resident_bytes, 0u);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process_stat(child)) << "it is gone";
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace distrun
