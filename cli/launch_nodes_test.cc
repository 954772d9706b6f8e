// Real launches on several nodes: each is a `distrun` at a loopback address.
#include <csignal>
#include <fstream>
#include <future>
#include <iterator>
#include <set>

#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "cli/test/launch.h"
#include "common/os/host_name.h"
#include "store/protocol/request.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::lines;
using testing::own_address;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using testing::SignalsByDefault;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

constexpr const char* kListens = "distrun: node 0 listens at ";

class LaunchNodesTest : public ::testing::Test {
 protected:
  using Node = std::future<ProgramResult>;

  // A node whose workers run `script`.
  Node node(int rank, int nodes, const std::string& script, const Words& flags = {},
            const ProgramOptions& options = {}) {
    Words words = {
        DISTRUN_PROGRAM,      "launch",        "--nnodes", std::to_string(nodes), "--node-rank",
        std::to_string(rank), "--master-addr", address_,   "--master-port",       kPort};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"sh", "-c", script});
    return std::async(std::launch::async, [words, options] { return run_program(words, options); });
  }

  static ProgramResult result(Node& node) {
    ProgramResult result = node.get();
    EXPECT_FALSE(result.timed_out) << result.out << result.err;
    // Node 0's first line.
    if (result.err.starts_with(kListens)) result.err.erase(0, result.err.find('\n') + 1);
    return result;
  }

  // Another process's socket at the store's address.
  int listen_there() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const timeval bound{.tv_sec = 10, .tv_usec = 0};  // For accept.
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    const boost::asio::ip::tcp::endpoint there(boost::asio::ip::make_address(address_), 29500);
    EXPECT_EQ(::bind(fd, there.data(), static_cast<socklen_t>(there.size())), 0);
    EXPECT_EQ(::listen(fd, 16), 0);
    return fd;
  }

  // Retries for up to ten seconds.
  UniqueFd connect_there() {
    const boost::asio::ip::tcp::endpoint there(boost::asio::ip::make_address(address_), 29500);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd.get(), there.data(), static_cast<socklen_t>(there.size())) == 0) return fd;
    }
    ADD_FAILURE() << "nothing listens at " << address_;
    return {};
  }

  static constexpr const char* kPort = "29500";
  std::string address_ = own_address();
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Calls `act` when the workers of a node have written something.
ProgramOptions when_output_comes(std::function<void(const std::string& out, int pid)> act) {
  ProgramOptions options;
  options.on_output = [done = false, act = std::move(act)](const std::string& out,
                                                           int pid) mutable {
    if (!done && out.back() == '\n') {
      done = true;
      act(out, pid);
    }
  };
  return options;
}

TEST_F(LaunchNodesTest, WorkersKnowTheirGlobalRank) {
  const std::string script =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "
      "$ROLE_RANK/$ROLE_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_RUN_ID";
  Node last = node(2, 3, script);  // In any order.
  Node first = node(0, 3, script, {"--nproc-per-node", "2"});
  Node middle = node(1, 3, script, {"--role", "other"});
  const auto outs = {result(first), result(middle), result(last)};
  for (const auto& one : outs) {
    EXPECT_EQ(one.end, ProcessEnd(ExitedWith{0})) << one.err;
    EXPECT_EQ(one.err, "");
  }
  const std::string there = " " + address_ + ":29500 none";
  EXPECT_THAT(lines(outs.begin()[0].out),
              UnorderedElementsAre("0/4 0/2 0/3 0/3" + there, "1/4 1/2 0/3 1/3" + there));
  EXPECT_EQ(outs.begin()[1].out, "2/4 0/1 1/3 0/1" + there + "\n");
  EXPECT_EQ(outs.begin()[2].out, "3/4 0/1 2/3 2/3" + there + "\n");
}

TEST_F(LaunchNodesTest, DisplaysTheRanksOfEachNode) {
  Node second = node(1, 2, "true", {"--display-map"});
  Node first = node(0, 2, "true", {"--display-map", "--nproc-per-node", "2"});
  EXPECT_EQ(result(first).err, "distrun: 3 ranks on 2 nodes\n  node 0 (" + host_name() +
                                   "): ranks 0-1\n  node 1 (" + host_name() + "): rank 2\n");
  EXPECT_EQ(result(second).err, "");
}

TEST_F(LaunchNodesTest, WorkersOfAllNodesShareOneStore) {
  const std::string script = std::string(DISTRUN_PROGRAM) + " store barrier all 4 && " +
                             DISTRUN_PROGRAM + " store add sum $RANK";
  Node first = node(0, 2, script, {"--nproc-per-node", "2"});
  Node second = node(1, 2, script, {"--nproc-per-node", "2"});
  const auto all = lines(result(first).out + result(second).out);
  EXPECT_THAT(all, ::testing::Contains("6"));
  EXPECT_EQ(all.size(), 4u);
}

TEST_F(LaunchNodesTest, FailureEndsEveryNodeWithTheSameStatusAndCulprit) {
  Node first = node(0, 3, "exec sleep 1000", {"--nproc-per-node", "2"});
  Node second = node(1, 3, "exec sleep 1000");
  Node third = node(2, 3, "exit 7");
  std::set<std::string> headlines;
  for (Node* each : {&first, &second, &third}) {
    const auto end = result(*each);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{7}));
    EXPECT_THAT(end.err, HasSubstr("  local rank 0 on "));
    headlines.insert(first_line(end.err));
  }
  ASSERT_EQ(headlines.size(), 1u) << *headlines.begin() << *headlines.rbegin();
  EXPECT_THAT(*headlines.begin(),
              AllOf(StartsWith("distrun: node 2 ("), HasSubstr("): rank 3 failed: exit code 7")));
}

// torchrun's other nodes would continue, and exit with 0.
TEST_F(LaunchNodesTest, NodeThatSucceededFailsWithTheOthers) {
  const testing::Folder folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  // The worker exits before the other's fails.
  Node first = node(0, 2, "echo done >" + fifo);
  Node second = node(1, 2, "read line <" + fifo + "; exit 3");
  const auto end = result(first);
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{3}));
  EXPECT_THAT(end.err, HasSubstr("rank 1 failed: exit code 3"));
  EXPECT_EQ(result(second).end, ProcessEnd(ExitedWith{3}));
}

TEST_F(LaunchNodesTest, RestartCoversAllNodesWithAnEmptyStore) {
  const std::string script =
      "store=\"" + std::string(DISTRUN_PROGRAM) + " store\"; " +
      "$store barrier here 2; echo $($store add count 1) >&2; $store barrier counted 2;"
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec echo $RANK of attempt 1;"
      "[ $RANK = 0 ] || exit 7; exec sleep 1000";
  const Words flags = {"--max-restarts", "1"};
  Node first = node(0, 2, script, flags), second = node(1, 2, script, flags);
  const auto one = result(first), other = result(second);
  EXPECT_EQ(one.end, ProcessEnd(ExitedWith{0})) << one.err;
  EXPECT_EQ(other.end, ProcessEnd(ExitedWith{0})) << other.err;
  EXPECT_EQ(one.out, "0 of attempt 1\n");
  EXPECT_EQ(other.out, "1 of attempt 1\n");
  // "1" and "2" in each attempt.
  const auto counts = lines(one.err + other.err);
  EXPECT_EQ(std::count(counts.begin(), counts.end(), "1"), 2);
  EXPECT_EQ(std::count(counts.begin(), counts.end(), "2"), 2);
}

TEST_F(LaunchNodesTest, ASignalToOneNodeEndsAll) {
  const SignalsByDefault signals;
  for (const int signalled : {0, 1}) {
    address_ = own_address();
    const std::string script = "echo here; exec sleep 1000";
    const ProgramOptions signals_it =
        when_output_comes([](const std::string&, int pid) { ::kill(pid, SIGTERM); });
    std::vector<Node> nodes;
    for (const int rank : {0, 1}) {
      nodes.push_back(node(rank, 2, script, {}, rank == signalled ? signals_it : ProgramOptions{}));
    }
    for (Node& each : nodes) {
      const auto end = result(each);
      EXPECT_EQ(end.end, ProcessEnd(ExitedWith{143}));
      EXPECT_THAT(end.err, AllOf(StartsWith(fmt::format("distrun: node {} (", signalled)),
                                 HasSubstr("): ended by signal SIGTERM (15)\n")));
    }
  }
}

// A worker's parent is the launcher.
TEST_F(LaunchNodesTest, KilledLauncherEndsTheOtherNodes) {
  for (const int killed : {0, 1}) {
    address_ = own_address();
    const std::string script = "echo $PPID; exec sleep 1000";
    const ProgramOptions kills_it =
        when_output_comes([](const std::string& out, int) { ::kill(std::stoi(out), SIGKILL); });
    std::vector<Node> nodes;
    for (const int rank : {0, 1}) {
      nodes.push_back(node(rank, 2, script, {}, rank == killed ? kills_it : ProgramOptions{}));
    }
    const auto lost = result(nodes[static_cast<std::size_t>(killed)]);
    EXPECT_EQ(lost.end, ProcessEnd(ExitedWith{137}));
    const auto other = result(nodes[static_cast<std::size_t>(1 - killed)]);
    EXPECT_EQ(other.end, ProcessEnd(ExitedWith{125}));
    EXPECT_THAT(other.err, AllOf(StartsWith(fmt::format("distrun: node {} (", killed)),
                                 HasSubstr("): lost: its connection has ended")));
  }
}

TEST_F(LaunchNodesTest, KilledGuardEndsTheOtherNodes) {
  Node first = node(0, 2, "exec sleep 1000");
  Node second = node(1, 2, "echo here; exec sleep 1000", {},
                     when_output_comes([](const std::string&, int pid) { ::kill(pid, SIGKILL); }));
  const auto end = result(first);
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{137}));
  EXPECT_THAT(end.err, StartsWith("distrun: node 1 ("));
  EXPECT_THAT(end.err, HasSubstr("guard process was killed"));
  EXPECT_EQ(result(second).end, ProcessEnd(KilledBy{SIGKILL}));
}

TEST_F(LaunchNodesTest, EveryNodeNamesTheNodeThatDidNotJoin) {
  const Words flags = {"--rdzv-conf", "timeout=2"};
  Node first = node(0, 3, "echo started", flags), third = node(2, 3, "echo started", flags);
  for (Node* each : {&first, &third}) {
    const auto end = result(*each);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{125}));
    EXPECT_EQ(end.out, "");
    EXPECT_THAT(end.err, AllOf(StartsWith("distrun: node 0 ("),
                               HasSubstr("node 1 did not join within 2 s; only node 0 ("),
                               HasSubstr("), node 2 (")));
  }
}

TEST_F(LaunchNodesTest, ShowsTheCulpritsLastLines) {
  Node first = node(0, 2, "exec sleep 1000");
  Node second = node(1, 2, "echo the very last line >&2; exit 7");
  EXPECT_THAT(result(first).err, HasSubstr("  last lines:\n    the very last line\n"));
  EXPECT_THAT(result(second).err, StartsWith("the very last line\n"));
}

TEST_F(LaunchNodesTest, RunHangsIfNoNodeMakesProgress) {
  Node first = node(0, 2, "exec sleep 1000", {"--hang-after", "0.3"});
  Node second = node(1, 2, "exec sleep 1000", {"--hang-after", "0.3"});
  for (Node* one : {&first, &second}) {
    const auto end = result(*one);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{75}));
    EXPECT_THAT(end.err, StartsWith("distrun: where the workers are: rank "));
    EXPECT_THAT(end.err,
                HasSubstr("\ndistrun: no progress on any node for 0.3 s (--hang-after)\n"));
  }
}

TEST_F(LaunchNodesTest, NamesANode0ThatDoesNotJoin) {
  const testing::Folder folder;
  const std::string events = folder.path() + "/events";
  Node second =
      node(1, 2, "echo started", {"--rdzv-conf", "read_timeout=1, timeout=1", "--events", events});
  const auto end = result(second);
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(end.out, "");
  EXPECT_THAT(end.err,
              AllOf(StartsWith("distrun launch: node 0 at " + address_ +
                               ":29500 did not answer within 1 s: connect: connection refused"),
                    HasSubstr("--node-rank 0")));
  std::ifstream file(events);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(all, HasSubstr(R"("event":"run_ended")"));
  EXPECT_THAT(all, HasSubstr(R"("cause":"not_joined","exit_status":125,"error":"node 0 at)"));
}

TEST_F(LaunchNodesTest, ASignalEndsTheWaitForOthers) {
  const SignalsByDefault signals;
  // Only the address shows when distrun is listening.
  for (const int rank : {0, 1}) {
    address_ = own_address();
    const UniqueFd listener(rank == 1 ? listen_there() : -1);
    std::promise<int> pid;
    const std::string program = fmt::format(
        "echo $$; exec {} launch --nnodes 2 --node-rank {} --master-addr {} --master-port {} true",
        DISTRUN_PROGRAM, rank, address_, kPort);
    const auto options =
        when_output_comes([&](const std::string& out, int) { pid.set_value(std::stoi(out)); });
    auto waits = std::async(std::launch::async, [&] {
      return run_program({"sh", "-c", program}, options);
    });
    const UniqueFd met(rank == 1 ? ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)
                                 : connect_there().release());
    ::kill(pid.get_future().get(), SIGTERM);
    const auto end = result(waits);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{143})) << end.err;
    EXPECT_THAT(end.err, HasSubstr("ended by signal SIGTERM"));
  }
}

TEST_F(LaunchNodesTest, RefusesNodesOfAnotherRunAndContinues) {
  Node first = node(0, 3, "echo ran", {"--rdzv-id", "ours"});
  const auto refused = [&](int rank, int nodes, const Words& flags) {
    Node wrong = node(rank, nodes, "echo started", flags);
    const auto end = result(wrong);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{125}));
    EXPECT_EQ(end.out, "");
    return end.err;
  };
  EXPECT_THAT(refused(1, 3, {}), HasSubstr("refused this node: it has --rdzv-id 'none', "
                                           "node 0 has 'ours'"));
  EXPECT_THAT(refused(1, 2, {"--rdzv-id", "ours"}), HasSubstr("it has --nnodes 2, node 0 has 3"));
  Node second = node(1, 3, "echo ran", {"--rdzv-id", "ours"});
  // Of two nodes with one rank, the second is refused while the run waits for node 2.
  const Words ours = {"--rdzv-id", "ours", "--rdzv-conf", "timeout=30"};
  Node twin = node(1, 3, "echo ran", ours);
  Node *in = &second, *out = &twin;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < deadline) {
    if (twin.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready) break;
    if (second.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready) {
      std::swap(in, out);
      break;
    }
  }
  EXPECT_THAT(result(*out).err, HasSubstr("--node-rank 1 is taken: "));
  Node third = node(2, 3, "echo ran", {"--rdzv-id", "ours"});
  for (Node* each : {&first, in, &third}) {
    const auto end = result(*each);
    EXPECT_EQ(end.out, "ran\n");
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{0})) << end.err;
  }
}

TEST_F(LaunchNodesTest, OtherServerAtThePortIsAnErrorOnEveryNode) {
  const UniqueFd listener(listen_there());
  Node first = node(0, 2, "echo started");
  const auto taken = result(first);
  EXPECT_EQ(taken.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(taken.err, HasSubstr("address already in use"));

  Node second = node(1, 2, "echo started");
  const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
  ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  const auto end = result(second);
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(
      end.err,
      StartsWith("distrun launch: the program that listens at " + address_ +
                 ":29500 is not node 0 of this run: it does not speak "
                 "distrun's protocol (is it HTTP?); on every node, give the address of node 0 "
                 "(--master-addr) and a port that is free on node 0 (--master-port)\n"));
}

TEST_F(LaunchNodesTest, DropsAStrayClientAndContinues) {
  Node first = node(0, 2, "echo ran");
  const UniqueFd stray = connect_there();
  const std::string garbage = std::string(1, static_cast<char>(kNodeGreeting)) + "garbage\n";
  ASSERT_GT(::send(stray.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  char byte;
  const timeval bound{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(stray.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
  EXPECT_EQ(::recv(stray.get(), &byte, 1, 0), 0);
  Node second = node(1, 2, "echo ran");
  const auto end = result(first);
  EXPECT_EQ(end.out, "ran\n");
  EXPECT_THAT(end.err, AllOf(StartsWith("distrun: a client at 127.0.0.1:"),
                             HasSubstr("is not a node of this run: it does not speak")));
  EXPECT_EQ(result(second).end, ProcessEnd(ExitedWith{0}));
}

TEST_F(LaunchNodesTest, Node0MustHaveTheAddress) {
  address_ = "192.0.2.7";  // Unused: RFC 5737.
  Node first = node(0, 2, "echo started");
  const auto end = result(first);
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(end.err, HasSubstr("--master-addr 192.0.2.7 is not an address of this machine; start "
                                 "node 0"));
}

TEST_F(LaunchNodesTest, RendezvousOverIpv6AndByName) {
  // Other tests use these addresses too, so the port must be unique.
  for (const std::string address : {"::1", "localhost"}) {
    UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{.sin6_family = AF_INET6};
    socklen_t size = sizeof(any);
    auto* raw = reinterpret_cast<sockaddr*>(&any);
    if (::bind(probe.get(), raw, size) != 0) GTEST_SKIP() << "no IPv6 here";
    ASSERT_EQ(::getsockname(probe.get(), raw, &size), 0);
    const std::string port = std::to_string(ntohs(any.sin6_port));
    probe.reset();
    const auto launch_one = [&](int rank) {
      return std::async(std::launch::async, [=] {
        return run_program({DISTRUN_PROGRAM, "launch", "--nnodes", "2", "--node-rank",
                            std::to_string(rank), "--master-addr", address, "--master-port", port,
                            "sh", "-c", std::string(DISTRUN_PROGRAM) + " store barrier all 2"});
      });
    };
    Node first = launch_one(0), second = launch_one(1);
    const auto end = first.get();
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{0})) << address;
    EXPECT_THAT(first_line(end.err), StartsWith(kListens));
    // The name means all addresses of this machine.
    EXPECT_EQ(end.err.find("loopback") != std::string::npos, address == "::1") << end.err;
    EXPECT_EQ(end.err.find("(--master-addr localhost: every node must run on this machine)") !=
                  std::string::npos,
              address == "localhost")
        << end.err;
    EXPECT_EQ(result(second).end, ProcessEnd(ExitedWith{0})) << address;
  }
}

TEST_F(LaunchNodesTest, Node0PrintsItsAddress) {
  Node first = node(0, 2, "true");
  Node second = node(1, 2, "true");
  EXPECT_EQ(
      first.get().err,
      kListens + address_ + ":29500 (a loopback address: every node must run on this machine)\n");
  EXPECT_EQ(second.get().err, "");
}

TEST_F(LaunchNodesTest, SeveralNodesNeedTheAddressOfNode0) {
  const auto end = run_program({DISTRUN_PROGRAM, "launch", "--nnodes", "2", "echo", "started"});
  EXPECT_EQ(end.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(end.err, StartsWith("distrun launch: --master-addr: several nodes need the address"));
}

TEST_F(LaunchNodesTest, RejectsFlagsThatSeveralNodesCannotHave) {
  for (const Words& flags : std::vector<Words>{{"--same-user"},
                                               {"--node-rank", "2"},
                                               {"--master-port", "0"},
                                               {"--rdzv-conf", "timeout=soon"},
                                               {"--nnodes", "1:2"}}) {
    Words words = {DISTRUN_PROGRAM, "launch"};
    if (flags[0] != "--nnodes") words.insert(words.end(), {"--nnodes", "2"});
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--master-addr", address_, "echo", "started"});
    const auto end = run_program(words);
    EXPECT_EQ(end.end, ProcessEnd(ExitedWith{2})) << flags[0];
    EXPECT_THAT(end.err, HasSubstr(flags[0])) << flags[0];
    EXPECT_EQ(end.out, "");
  }
}

}  // namespace
}  // namespace distrun
