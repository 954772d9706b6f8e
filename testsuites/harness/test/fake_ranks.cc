#include "testsuites/harness/test/fake_ranks.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "testsuites/harness/protocol/rank_frames.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/protocol/where_signal.h"

namespace distrun::fake {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string path_of(const std::string& place) {
  return variable("FAKE_FOLDER") + "/" + place + ".place";
}

void close_all() {
  for (int fd = 0; fd < 64; ++fd) ::close(fd);
}

void kill_host() { ::kill(::getppid(), SIGKILL); }

class Rank {
 public:
  explicit Rank(int result) : result_(result) {}

  void tell(const std::string& bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const auto size = ::write(result_, bytes.data() + done, bytes.size() - done);
      if (size <= 0) ::_exit(125);
      done += static_cast<std::size_t>(size);
    }
  }
  void tell(const RankFrame& frame) const { tell(to_frame(frame)); }
  void fails() const { tell(AssertionFailed{{.file = "", .line = 0, .message = "on purpose"}}); }
  void is_done() const { tell(TestDone{.assertions = 1, .collectives = {}}); }
  void half_a_frame() const { tell(to_frame(SkipAsked{"no end"}).substr(0, 20)); }

  bool is_second() const { return variable("RANK") == "1"; }

 private:
  int result_;
};

// If it returns, the rank exits with code 0.
using Behaviour = void (*)(const Rank& rank);

void tells_its_variables(const Rank& rank) {
  for (char** one = environ; *one != nullptr; ++one) std::puts(*one);
  rank.is_done();
}

void fails_1000_times(const Rank& rank) {
  for (int i = 0; i < 1000; ++i) rank.fails();
  rank.is_done();
}

void ends_with_3_after_its_test(const Rank& rank) {
  rank.is_done();
  ::_exit(3);
}

void tells_half_a_frame(const Rank& rank) {
  rank.is_done();
  rank.half_a_frame();
}

void is_killed_while_it_tells(const Rank& rank) {
  rank.half_a_frame();
  ::raise(SIGKILL);
}

void hangs_and_tells(const Rank& rank) {
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, where_signal());
  for (int signal = 0; ::sigwait(&asked, &signal) == 0;) rank.tell(PlaceTold{"here\n", {}});
}

// Rank 1 fails; the others report their places when asked.
void hangs_and_says_where(const Rank& rank) {
  if (rank.is_second()) return rank.fails();
  hangs_and_tells(rank);
}

// Like a rank in an interruptible sleep.
void passes_when_asked(const Rank& rank) {
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, where_signal());
  int signal = 0;
  ::sigwait(&asked, &signal);
  rank.is_done();
}

void fails_when_asked(const Rank& rank) {
  passes_when_asked(rank);
  rank.fails();
}

// The others do not answer.
void hangs_silently(const Rank& rank) {
  if (rank.is_second()) return rank.fails();
  wait_for_ever();
}

void is_done_and_hangs(const Rank& rank) {
  rank.is_done();
  wait_for_ever();
}

void leaves_its_output_open(const Rank& rank) {
  rank.is_done();
  std::puts("printed");
  std::fflush(stdout);
  if (::fork() == 0) wait_for_ever();
}

void leaves_a_process_that_is_not_found(const Rank& rank) {
  rank.is_done();
  if (::fork() != 0) return;
  close_all();
  wait_for_ever();
}

// The runner must reap the child: this process prints its pid and does not wait for it.
void leaves_a_process_that_ends(const Rank& rank) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  std::printf("%d\n", child);
  rank.is_done();
}

void leaves_a_process_and_interrupts(const Rank&) {
  if (::fork() == 0) {
    close_all();
    wait_for_ever();
  }
  ::kill(std::atoi(variable("FAKE_RUNNER").c_str()), SIGTERM);
  wait_for_ever();
}

// Sends more than the pipe can contain, so the runner has read some of it on return.
void fail_until_it_is_noted(const Rank& rank) {
  for (int i = 0; i < 2000; ++i) rank.fails();
}

// Rank 1 fails first and ends last.
void fails_first_and_hangs(const Rank& rank) {
  if (rank.is_second()) {
    fail_until_it_is_noted(rank);
    let_one_go("another");
    wait_for_ever();
  }
  wait_at("another");
  rank.fails();
  rank.is_done();
}

// Rank 0 fails first; rank 1 dies without a report.
void is_killed_when_another_has_failed(const Rank& rank) {
  if (rank.is_second()) {
    wait_at("another");
    ::raise(SIGKILL);
  }
  fail_until_it_is_noted(rank);
  let_one_go("another");
  rank.is_done();
}

void wait_for_end_of(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{pidfd.get(), POLLIN, 0};
  if (pidfd && ::poll(&ended, 1, 60'000) != 1) ::_exit(125);
}

// Otherwise rank 0 does nothing wrong, and it has ended when rank 1 fails.
void leaves_its_output_open_until_another_fails(const Rank& rank) {
  const std::string file = variable(kTestFolderVariable) + "/pid";
  if (!rank.is_second()) {
    std::ofstream(file) << ::getpid() << std::endl;
    let_one_go("another");
    return leaves_its_output_open(rank);
  }
  wait_at("another");
  pid_t pid = -1;
  std::ifstream(file) >> pid;
  wait_for_end_of(pid);
  rank.fails();
}

void tells_whether_somebody_looks(const Rank& rank) {
  if (!rank.is_second()) std::puts(variable(kTestDebuggedVariable).c_str());
  rank.is_done();
}

void kills_its_host(const Rank&) {
  kill_host();
  wait_for_ever();
}

void kills_its_host_when_let(const Rank&) {
  if (is_first_at("kills")) wait_at("kills_its_host_when_let");
  kill_host();
  wait_for_ever();
}

void hangs_the_first_time(const Rank& rank) {
  if (is_first_at("hangs")) {
    let_one_go("kills_its_host_when_let");
    wait_for_ever();
  }
  rank.is_done();
}

void passes_when_let(const Rank& rank) {
  wait_at("passes_when_let");
  rank.is_done();
}

void passes_at_last(const Rank& rank) {
  wait_at("passes_at_last");
  rank.is_done();
}

void fails_when_let(const Rank& rank) {
  wait_at("fails_when_let");
  rank.fails();
  rank.is_done();
}

void tells_its_place(const Rank& rank) {
  std::printf("rank %s of %s, backend %s, seed %s\n", variable("RANK").c_str(),
              variable("WORLD_SIZE").c_str(), variable(kTestBackendVariable).c_str(),
              variable(kTestSeedVariable).c_str());
  rank.is_done();
}

void fails_the_first_time(const Rank& rank) {
  if (is_first_at("fails")) rank.fails();
  rank.is_done();
}

void waits_for_another(const Rank& rank) {
  wait_at("another");
  rank.is_done();
}

void lets_another_go(const Rank& rank) {
  let_one_go("another");
  rank.is_done();
}

// Reports that it runs, and holds the place until it exits. Names its collective when asked.
void holds_a_place(const Rank& rank) {
  sigset_t asked;
  ::sigemptyset(&asked);
  ::sigaddset(&asked, collective_signal());
  ::sigprocmask(SIG_BLOCK, &asked, nullptr);
  const UniqueFd pipe(::open(path_of("held").c_str(), O_WRONLY | O_CLOEXEC));
  if (::write(pipe.get(), "!", 1) != 1) ::_exit(125);
  for (int signal = 0; ::sigwait(&asked, &signal) == 0;) rank.tell(CollectiveTold{"in a barrier"});
}

void fails(const Rank& rank) {
  rank.fails();
  rank.is_done();
}

void skips(const Rank& rank) {
  rank.tell(SkipAsked{"on purpose"});
  rank.is_done();
}

// The first does nothing wrong.
template <void (*kBehaviour)(const Rank&)>
void the_second(const Rank& rank) {
  rank.is_second() ? kBehaviour(rank) : rank.is_done();
}

void the_first_kills_its_host(const Rank& rank) {
  rank.is_second() ? hangs_and_tells(rank) : kills_its_host(rank);
}

struct FakeTest {
  const char* name;
  Behaviour run;
  TestNeeds needs = {};
};

const FakeTest kTests[] = {
    {"passes", [](const Rank& rank) { rank.is_done(); }},
    {"is_alone", [](const Rank& rank) { rank.is_done(); }, {.exclusive = true}},
    {"has_two_ranks", [](const Rank& rank) { rank.is_done(); }, {.ranks = 2}},
    {"needs_a_gpu", [](const Rank&) {}, {.min_gpus = 1000}},
    {"skips",
     [](const Rank& rank) {
       rank.tell(SkipAsked{"on purpose"});
       rank.is_done();
     }},
    {"fails",
     [](const Rank& rank) {
       rank.fails();
       rank.is_done();
     }},
    {"tells_its_variables", tells_its_variables},
    {"fails_1000_times", fails_1000_times},
    {"ends_with_3_after_its_test", ends_with_3_after_its_test},
    {"tells_half_a_frame", tells_half_a_frame},
    {"is_killed_while_it_tells", is_killed_while_it_tells},
    {"hangs_and_says_where", hangs_and_says_where, {.ranks = 2}},
    {"hangs_silently", hangs_silently, {.ranks = 2}},
    {"passes_when_asked", passes_when_asked},
    {"fails_when_asked", fails_when_asked},
    {"hangs_for_ever", [](const Rank&) { wait_for_ever(); }},
    {"is_done_and_hangs", is_done_and_hangs},
    {"leaves_its_output_open", leaves_its_output_open},
    {"leaves_its_output_open_until_another_fails",
     leaves_its_output_open_until_another_fails,
     {.ranks = 2}},
    {"leaves_a_process_that_is_not_found", leaves_a_process_that_is_not_found},
    {"leaves_a_process_that_ends", leaves_a_process_that_ends},
    {"leaves_a_process_and_interrupts", leaves_a_process_and_interrupts},
    {"fails_first_and_hangs", fails_first_and_hangs, {.ranks = 2}},
    {"is_killed_when_another_has_failed", is_killed_when_another_has_failed, {.ranks = 2}},
    {"tells_whether_somebody_looks", tells_whether_somebody_looks, {.ranks = 2}},
    {"kills_its_host", kills_its_host},
    {"kills_its_host_when_let", kills_its_host_when_let},
    {"hangs_the_first_time", hangs_the_first_time},
    {"passes_when_let", passes_when_let},
    {"passes_at_last", passes_at_last},
    {"fails_when_let", fails_when_let},
    {"tells_its_place",
     tells_its_place,
     {.ranks = 2, .ranks_max = 4, .backends = {"gloo", "fake"}}},
    {"fails_the_first_time", fails_the_first_time},
    {"waits_for_another", waits_for_another},
    {"lets_another_go", lets_another_go},
    {"holds_a_place", holds_a_place, {.ranks = 2}},
    // On two nodes, the second rank is on the other node.
    {"has_a_second_that_fails", the_second<fails>, {.ranks = 2}},
    {"has_a_second_that_hangs", the_second<hangs_and_tells>, {.ranks = 2}},
    {"has_a_second_that_kills_its_host", the_second<kills_its_host>, {.ranks = 2}},
    {"has_a_second_that_leaves_a_process", the_second<leaves_its_output_open>, {.ranks = 2}},
    {"has_a_first_that_kills_its_host", the_first_kills_its_host, {.ranks = 2}},
    {"has_a_second_that_skips", the_second<skips>, {.ranks = 2}},
};

std::string id_of(const FakeTest& test) { return std::string("fake.Rank.") + test.name; }

}  // namespace

void wait_for_ever() {
  for (;;) ::pause();
}

bool is_first_at(const std::string& place) {
  return UniqueFd(::open((path_of(place) + ".been").c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0600))
             .get() >= 0;
}

void wait_at(const std::string& place) {
  const UniqueFd pipe(::open(path_of(place).c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  if (::read(pipe.get(), &byte, 1) != 1) ::_exit(125);
}

void let_one_go(const std::string& place) {
  const UniqueFd pipe(::open(path_of(place).c_str(), O_WRONLY | O_CLOEXEC));
  if (::write(pipe.get(), "!", 1) != 1) ::_exit(125);
}

std::string test_list() {
  std::vector<TestInfo> list;
  for (const FakeTest& one : kTests) {
    list.push_back({.id = id_of(one), .needs = one.needs, .file = "", .line = 0});
  }
  return test_list_json(list);
}

void run_rank(const std::string& id, int result) {
  for (const FakeTest& one : kTests) {
    if (id_of(one) == id) one.run(Rank(result));
  }
  std::fflush(stdout);
  ::_exit(0);
}

}  // namespace distrun::fake
