// Real launches whose worker 0 answers as the RAS subsystem of NCCL does, without NCCL.
#include <fstream>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::launch;
using ::testing::Not;
using testing::ProgramOptions;
using testing::run_program;

constexpr const char* kFound =
    "NCCL: communicator of 2 ranks (cf264af53edbe986): different AllReduce operation counts: "
    "rank 0 has launched up to operation 12, rank 1 has launched up to operation 11\n";

// What local rank 0 does, by its argument: "answer"; "silence": it accepts no connection;
// "collect": it accepts and neither reads nor answers, as RAS while it collects data; "garbage";
// "none": it does not listen. A process must have the address in its environment from its start. If
// it is slow, distrun opens several connections: it answers only those that distrun has not closed.
constexpr const char* kScript = R"(import os, select, socket, sys
what = sys.argv[1]
if os.environ["LOCAL_RANK"] == "0" and what != "none" and "FAKE_RAS" not in os.environ:
    server = socket.create_server(("127.0.0.1", 0))
    os.set_inheritable(server.fileno(), True)
    os.environ["FAKE_RAS"] = str(server.fileno())
    os.environ["NCCL_RAS_ADDR"] = "localhost:" + str(server.getsockname()[1])
    os.execv(sys.executable, [sys.executable] + sys.argv)
print("here", flush=True)
if "FAKE_RAS" not in os.environ:
    os.read(os.pipe()[0], 1)
server = socket.socket(fileno=int(os.environ["FAKE_RAS"]))
if what == "silence":
    select.select([server], [], [])
    print("asked", flush=True)
    os.read(os.pipe()[0], 1)
open_clients = []
def serve(client):
    if what in ("collect", "garbage"):
        open_clients.append(client)
    if what == "collect":
        client.sendall(b"SERVER PROTOCOL 2\nOK\n")
        print("asked", flush=True)
        return
    if what == "garbage":
        client.sendall(b"\x00\x1b[31m\xff\r\n" * 100)
        return
    for line in client.makefile("r"):
        if line.startswith("CLIENT PROTOCOL"):
            client.sendall(b"SERVER PROTOCOL 2\n")
        elif line.startswith("TIMEOUT"):
            client.sendall(b"OK\n")
        elif line == "VERBOSE STATUS\n":
            break
    if select.select([client], [], [], 0)[0]:
        return
    client.sendall(b"""
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 0 has launched up to operation 12 -- GPU 0 managed by process 1 on node 10.0.0.1
  Rank 1 has launched up to operation 11 -- GPU 1 managed by process 1 on node 10.0.0.2

""")
    print("answered", flush=True)
    client.shutdown(socket.SHUT_WR)
    client.recv(1)
while True:
    try:
        serve(server.accept()[0])
    except OSError:
        pass
)";

class FakeRasTest : public ::testing::Test {
 protected:
  FakeRasTest() { std::ofstream(script_) << kScript; }

  testing::ProgramResult run(const std::string& what, std::vector<std::string> flags,
                             const ProgramOptions& options = {}) const {
    flags.insert(flags.end(), {"python3", script_, what});
    return launch(flags, options);
  }

  const testing::SignalsByDefault signals_;
  const testing::Folder folder_;
  const std::string script_ = folder_.path() + "/train.py";
};

TEST_F(FakeRasTest, StacksAndASignalTellWhatRasSays) {
  ProgramOptions options;
  testing::ProgramResult stacks;
  bool asked = false, shown = false;
  options.on_output = [&](const std::string& out, int pid) {
    if (!asked && testing::lines(out).size() == 2) {
      asked = true;
      stacks = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
      ::kill(pid, SIGUSR1);
    } else if (asked && !shown && testing::lines(out).size() == 4) {  // Both were answered.
      shown = true;
      ::kill(pid, SIGTERM);
    }
  };
  const std::string events = folder_.path() + "/events";
  const auto result = run("answer", {"--nproc-per-node", "2", "--events", events}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM})) << result.err;
  EXPECT_THAT(stacks.out, AllOf(::testing::StartsWith(kFound), Not(HasSubstr("connections"))));
  EXPECT_THAT(result.err, AllOf(HasSubstr("distrun: " + std::string(kFound)),
                                HasSubstr("distrun: ended by signal SIGTERM (15)\n"
                                          "  " +
                                          std::string(kFound))));
  std::ifstream file(events);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event["event"] == "stacks_read") last = event.value("nccl", "");
  }
  EXPECT_EQ("NCCL: " + last + "\n", kFound);
}

TEST_F(FakeRasTest, ASilentServerOnlyDelaysTheEnd) {
  ProgramOptions options;
  options.on_output = [&](const std::string& out, int pid) {
    if (out == "here\n") ::kill(pid, SIGUSR1);
    if (out == "here\nasked\n") ::kill(pid, SIGTERM);
  };
  const auto result = run("silence", {}, options);
  EXPECT_EQ(result.out, "here\nasked\n");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("distrun: where the workers are"), Not(HasSubstr("NCCL:"))));
}

constexpr const char* kNotFinished =
    "NCCL: RAS had not finished its report when distrun stopped waiting, perhaps because a process "
    "does not answer\n";

// RAS does not read while it collects data: it closes its end of a connection late.
TEST_F(FakeRasTest, ItsOwnConnectionsAreNotThoseOfAWorker) {
  ProgramOptions options;
  testing::ProgramResult first, second;
  bool asked = false;
  options.on_output = [&](const std::string&, int pid) {
    if (std::exchange(asked, true)) return;
    first = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
    second = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
    ::kill(pid, SIGTERM);
  };
  EXPECT_THAT(run("collect", {}, options).out, ::testing::StartsWith("here\nasked\nasked\n"));
  EXPECT_THAT(first.out, ::testing::StartsWith(kNotFinished));
  EXPECT_THAT(second.out,
              AllOf(::testing::StartsWith(kNotFinished), Not(HasSubstr("connections"))));
}

TEST_F(FakeRasTest, TwoCommandsDoNotAskAtOnce) {
  ProgramOptions options;
  testing::ProgramResult stacks;
  bool is_refused = false;
  options.on_output = [&](const std::string& out, int pid) {
    if (is_refused) return;
    if (out != "here\n") {
      stacks = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
      is_refused = stacks.out.starts_with("NCCL: not asked") || testing::lines(out).size() > 10;
    }
    // On a busy machine, the first command may end before the second starts: then once more.
    ::kill(pid, is_refused ? SIGTERM : SIGUSR1);
  };
  run("collect", {}, options);
  EXPECT_THAT(
      stacks.out,
      AllOf(::testing::StartsWith(
                "NCCL: not asked, because another command is asking it; try again\n"),
            HasSubstr("rank 0 in "), Not(HasSubstr("collectives")), Not(HasSubstr("connections"))));
}

TEST_F(FakeRasTest, AnotherProtocolIsLeftOut) {
  ProgramOptions options;
  testing::ProgramResult stacks;
  options.on_output = [&](const std::string& out, int pid) {
    if (out != "here\n" || !stacks.out.empty()) return;
    stacks = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
    ::kill(pid, SIGTERM);
  };
  run("garbage", {}, options);
  EXPECT_THAT(stacks.out, AllOf(HasSubstr("rank 0 in "), Not(HasSubstr("NCCL:"))));
}

// The port may belong to another job of this machine.
TEST_F(FakeRasTest, AListenerThatIsNotAWorkerIsNotAsked) {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(server.get(), any, size), 0);
  ASSERT_EQ(::listen(server.get(), 8), 0);
  ASSERT_EQ(::getsockname(server.get(), any, &size), 0);
  ProgramOptions options;
  options.environment.set("NCCL_RAS_ADDR", "localhost:" + std::to_string(ntohs(address.sin_port)));
  testing::ProgramResult stacks;
  options.on_output = [&](const std::string&, int pid) {
    if (!stacks.out.empty()) return;
    stacks = run_program({DISTRUN_PROGRAM, "stacks", std::to_string(pid)});
    ::kill(pid, SIGTERM);
  };
  run("none", {}, options);
  EXPECT_THAT(stacks.out, AllOf(HasSubstr("rank 0 in "), Not(HasSubstr("NCCL:"))));
  EXPECT_EQ(::accept(server.get(), nullptr, nullptr), -1) << "a stranger was asked";
}

// distrun switches RAS off with --hang-after: its threads send data all the time.
TEST_F(FakeRasTest, WithHangAfterTheUserMustSwitchRasOn) {
  const std::vector<std::string> flags = {"--nproc-per-node", "2", "--hang-after", "2"};
  EXPECT_THAT(run("answer", flags).err, Not(HasSubstr("NCCL:")));
  ProgramOptions options;
  options.environment.set("NCCL_RAS_ENABLE", "1");
  EXPECT_THAT(run("answer", flags, options).err, HasSubstr("distrun: " + std::string(kFound)));
}

TEST_F(FakeRasTest, OfSeveralNodesOnlyNode0Asks) {
  const std::string address = testing::own_address();
  const auto node = [&](int number) {
    return std::async(std::launch::async,
                      [=, this] { return run("answer", testing::flags_of_node(number, address)); });
  };
  auto first = node(0), second = node(1);
  EXPECT_THAT(first.get().err, HasSubstr("distrun: " + std::string(kFound)));
  const auto result = second.get();
  EXPECT_THAT(result.err + result.out, AllOf(Not(HasSubstr("NCCL:")), Not(HasSubstr("answered"))));
}

}  // namespace
}  // namespace distrun
