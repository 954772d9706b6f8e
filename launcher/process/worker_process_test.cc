#include "launcher/process/worker_process.h"

#include <csignal>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace distrun {
namespace {

using ::testing::HasSubstr;

struct OutputPipe {
  OutputPipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  UniqueFd from, to;
};

// Reads until the last writer closes; fails after ten seconds of silence.
std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, 10'000) > 0) {
    const auto size = ::read(fd, buffer, sizeof(buffer));
    if (size <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  ADD_FAILURE() << "the pipe is still open after ten seconds; read: " << text;
  return text;
}

ProcessEnd wait_for_end(const WorkerProcess& process) {
  pollfd ready{.fd = process.pidfd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&ready, 1, 10'000), 1) << "still running after ten seconds";
  return look_at_end(process).value();
}

SpawnRequest shell(const std::string& script, int out) {
  SpawnRequest request{.executable = "/bin/sh", .arguments = {"sh", "-c", script}, .out = out};
  request.environment.set("PATH", "/usr/bin:/bin");
  return request;
}

std::string output_of(const std::string& script) {
  OutputPipe pipe;
  auto started = spawn_process(shell(script, pipe.to.get())).value();
  pipe.to.reset();
  std::string text = read_all(pipe.from.get());
  wait_for_end(started);
  end_group(started);
  return text;
}

TEST(WorkerProcessTest, GetsItsArgumentsEnvironmentAndOutput) {
  OutputPipe pipe;
  SpawnRequest request = shell("echo $RANK $0 $1", pipe.to.get());
  request.arguments.insert(request.arguments.end(), {"zero", "one two"});
  request.environment.set("RANK", "3");
  const auto started = spawn_process(request).value();
  pipe.to.reset();
  EXPECT_EQ(read_all(pipe.from.get()), "3 zero one two\n");
  EXPECT_EQ(wait_for_end(started), ProcessEnd(ExitedWith{0}));
  end_group(started);
}

TEST(WorkerProcessTest, DistinguishesExitCodesFromSignals) {
  OutputPipe pipe;
  for (const auto& [script, end] :
       {std::pair{"exit 3", ProcessEnd(ExitedWith{3})}, {"kill -SEGV $$", KilledBy{SIGSEGV}}}) {
    const auto started = spawn_process(shell(script, pipe.to.get())).value();
    EXPECT_EQ(wait_for_end(started), end);
    EXPECT_EQ(look_at_end(started), end) << "looking must not reap";
    end_group(started);
    EXPECT_EQ(::waitpid(started.pid, nullptr, WNOHANG), -1) << "not reaped";
  }
}

TEST(WorkerProcessTest, RunningProcessHasNoEnd) {
  OutputPipe pipe;
  const auto started = spawn_process(shell("exec sleep 60", pipe.to.get())).value();
  EXPECT_EQ(look_at_end(started), std::nullopt);
  signal_group(started, SIGKILL);
  EXPECT_EQ(wait_for_end(started), ProcessEnd(KilledBy{SIGKILL}));
  end_group(started);
}

TEST(WorkerProcessTest, LeadsItsSessionAndInheritsNoOtherDescriptor) {
  const UniqueFd inheritable(::open("/dev/null", O_RDONLY));
  ASSERT_GE(inheritable.get(), 3);
  EXPECT_EQ(output_of("read -r pid name state parent group session rest </proc/$$/stat;"
                      "[ $group = $$ ] && [ $session = $$ ] && echo leads"),
            "leads\n");
  EXPECT_EQ(output_of("exec ls /proc/self/fd"), "0\n1\n2\n3\n");  // 3 is the folder that ls reads.
}

TEST(WorkerProcessTest, StartsWithNoSignalBlockedAndDefaultSigpipe) {
  ::signal(SIGPIPE, SIG_IGN);
  const std::string blocked = output_of("grep SigBlk /proc/self/status");
  const std::string ignored = output_of("sed -n 's/SigIgn:\t//p' /proc/self/status");
  ::signal(SIGPIPE, SIG_DFL);
  EXPECT_EQ(blocked, "SigBlk:\t0000000000000000\n");
  EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1ull << (SIGPIPE - 1)), 0u) << ignored;
}

TEST(WorkerProcessTest, RunsOnTheGivenCpusLikeItsChildren) {
  const CpuSet usable = usable_cpus();
  OutputPipe pipe;
  SpawnRequest request =
      shell("sed -n 's/Cpus_allowed_list:\t//p' /proc/$$/status /proc/self/status", pipe.to.get());
  request.cpus = {*usable.rbegin()};
  const auto started = spawn_process(request).value();
  pipe.to.reset();
  const std::string line = cpu_list(request.cpus) + "\n";
  EXPECT_EQ(read_all(pipe.from.get()), line + line);
  wait_for_end(started);
  end_group(started);
  EXPECT_EQ(usable_cpus(), usable) << "the launcher itself is not bound";
  EXPECT_EQ(output_of("sed -n 's/Cpus_allowed_list:\t//p' /proc/$$/status"),
            cpu_list(usable) + "\n");
}

TEST(WorkerProcessTest, CpusThatDoNotExistAreAnErrorAndLeaveNoProcess) {
  SpawnRequest request = shell("echo started", STDOUT_FILENO);
  request.cpus = {kCpusMax - 2, kCpusMax - 1};
  const auto started = spawn_process(request);
  ASSERT_TRUE(started.has_error());
  EXPECT_EQ(started.error().kind, ErrorKind::kSystem);
  EXPECT_EQ(started.error().message, "bind to CPUs 8190-8191: invalid argument");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(WorkerProcessTest, FailedExecIsAnErrorAndLeavesNoProcess) {
  SpawnRequest request{.executable = "/no/such/program", .arguments = {"x"}};
  auto started = spawn_process(request);
  ASSERT_TRUE(started.has_error());
  EXPECT_EQ(started.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(started.error().message,
              HasSubstr("exec /no/such/program: no such file or directory"));

  const std::string path = ::testing::TempDir() + "no_first_line";
  std::ofstream(path) << "echo hello\n";
  ::chmod(path.c_str(), 0755);
  request.executable = path;
  started = spawn_process(request);
  ASSERT_TRUE(started.has_error());
  EXPECT_EQ(started.error().kind, ErrorKind::kNotExecutable);
  EXPECT_THAT(started.error().message, HasSubstr("a script needs a first line"));
  ::unlink(path.c_str());

  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(WorkerProcessTest, EndGroupKillsLeakedProcesses) {
  OutputPipe pipe;
  const auto started = spawn_process(shell("sleep 60 & echo left; exit 0", pipe.to.get())).value();
  pipe.to.reset();
  wait_for_end(started);
  end_group(started);
  EXPECT_EQ(read_all(pipe.from.get()), "left\n");  // Ends only after sleep has ended.
}

TEST(WorkerProcessTest, ADescriptorThatIsKeptHasItsNumber) {
  const OutputPipe kept, other;
  OutputPipe pipe;
  const auto path = [](const UniqueFd& file) {
    return " /proc/$$/fd/" + std::to_string(file.get());
  };
  SpawnRequest request = shell("for fd in" + path(kept.from) + path(kept.to) + path(other.from) +
                                   "; do [ ! -e $fd ] || echo ${fd##*/}; done",
                               pipe.to.get());
  request.kept = kept.from.get();
  auto started = spawn_process(request).value();
  pipe.to.reset();
  EXPECT_EQ(read_all(pipe.from.get()), std::to_string(kept.from.get()) + "\n");
  wait_for_end(started);
  end_group(started);
}

}  // namespace
}  // namespace distrun
