// `distrun store`: a server, and the client's commands in scripts.
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/test/folder.h"
#include "distrun/store_client.h"
#include "distrun/store_status.h"
#include "launcher/test/run_program.h"
#include "store/test/served_store.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int exit_code(const ProgramResult& result) {
  const auto* exited = std::get_if<ExitedWith>(&result.end);
  return exited != nullptr ? exited->code : -1;
}

class StoreCommandTest : public ::testing::Test {
 protected:
  // Serves until `use`, which gets the address, returns.
  ProgramResult serve(const std::vector<std::string>& flags,
                      const std::function<void(const std::string& address, int pid)>& use) {
    std::vector<std::string> arguments = {DISTRUN_PROGRAM, "store", "serve"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    bool used = false;
    ProgramOptions options;
    options.on_output = [&](const std::string& out, int pid) {
      if (used || !out.ends_with('\n')) return;
      used = true;
      use(out.substr(0, out.size() - 1), pid);
      ::kill(pid, SIGTERM);
    };
    ProgramResult result = run_program(arguments, options);
    EXPECT_FALSE(result.timed_out) << result.err;
    EXPECT_TRUE(used) << result.err;
    return result;
  }

  // Runs a shell script with `distrun` on its PATH and the store in its environment. If it prints
  // an address, calls `use` with it, and then ends the script.
  ProgramResult script(const std::string& text, const std::string& address = "",
                       const std::function<void(const std::string&)>& use = {}) {
    ProgramOptions options;
    bool used = false;
    options.on_output = [&](const std::string& out, int pid) {
      if (!use || std::exchange(used, true)) return;
      use(out.substr(0, out.find('\n')));
      ::kill(pid, SIGTERM);
    };
    if (!address.empty()) options.environment.set("DISTRUN_STORE", address);
    const auto path = std::filesystem::path(DISTRUN_PROGRAM).parent_path().string();
    ProgramResult result =
        run_program({"sh", "-c", "PATH=" + path + ":$PATH; cd " + folder_ + "\n" + text}, options);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
};

TEST_F(StoreCommandTest, AScriptUsesEveryCommand) {
  const auto served = serve({}, [&](const std::string& address, int) {
    const auto result = script(R"(
set -e
distrun store set greeting 'hello, world'
distrun store get greeting; echo
printf 'a\0b\377' > value; distrun store set binary < value
distrun store get binary | cmp - value && echo the same bytes
distrun store add n 5; distrun store add n -7
distrun store compare-set leader '' me && echo elected
distrun store compare-set leader '' you || echo not elected: $?
distrun store wait --timeout 10 greeting n && echo there
distrun store wait --timeout 0.05 greeting never also-never || echo time-out: $?
distrun store get never || echo no such key: $?
distrun store get --wait --timeout 0.05 never || echo time-out: $?
distrun store barrier all 1 && echo together
distrun store barrier --timeout 0.05 some 2 || echo time-out: $?
distrun store delete n && echo deleted
distrun store delete n || echo no such key: $?
distrun store keys
distrun store keys -0 --raw | tr '\0' ' '
)",
                               address);
    EXPECT_EQ(exit_code(result), 0);
    EXPECT_EQ(result.out, R"(hello, world
the same bytes
5
-2
me
elected
me
not elected: 1
there
time-out: 3
no such key: 4
time-out: 3
together
time-out: 3
deleted
no such key: 4
all
binary
greeting
leader
some
/all /binary /greeting /leader /some )");
    EXPECT_THAT(result.err,
                HasSubstr("wait: timed out after 0.05 s; not set: never, also-never ("));
    EXPECT_THAT(result.err, HasSubstr("get: timed out after 0.05 s; not set: never ("));
    EXPECT_THAT(result.err, HasSubstr("barrier: timed out after 0.05 s; 1 of 2 clients arrived ("));
  });
  EXPECT_EQ(served.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(served.err, "");
}

TEST_F(StoreCommandTest, AWaitEndsWhenAnotherSets) {
  serve({}, [&](const std::string& address, int) {
    const auto result = script(R"(
distrun store wait --timeout 30 ready & waiting=$!
distrun store barrier --timeout 30 both 2 & other=$!
distrun store barrier --timeout 30 both 2 && distrun store set ready yes
wait $waiting && wait $other && echo done)",
                               address);
    EXPECT_EQ(result.out, "done\n");
    EXPECT_EQ(result.err, "");
  });
}

TEST_F(StoreCommandTest, StatusShowsMissingRanks) {
  serve({}, [&](const std::string& address, int) {
    const auto result = script(R"(
RANK=1 WORLD_SIZE=3 distrun store wait --timeout 30 ready/0 & waiting=$!
RANK=2 WORLD_SIZE=3 distrun store barrier --timeout 30 meet 3 & other=$!
for i in $(seq 500); do
  status=$(distrun store status) || exit
  case $status in *'for ready/0'*'meet: 1 of 3'*|*'meet: 1 of 3'*'for ready/0'*) break;; esac
done
echo "$status"
distrun store status --json > json
distrun store set ready/0 yes; distrun store add meet 1 > /dev/null
distrun store barrier meet 3 && wait $waiting && wait $other && echo done)",
                               address);
    EXPECT_THAT(result.out, MatchesRegex("store at [0-9.:]+: 2 connections, .*\nwaiting:\n(.*\n)+"
                                         "not connected: rank 0\ndone\n"));
    EXPECT_THAT(result.out, ::testing::ContainsRegex("rank 1 \\(pid [0-9]+\\) .* s for ready/0\n"));
    EXPECT_THAT(result.out, ::testing::ContainsRegex(
                                "rank 2 \\(pid [0-9]+\\) .* s in the barrier meet: 1 of 3"));
    const auto status = store_status_from_json(contents(folder_ + "/json"));
    ASSERT_TRUE(status.has_value());
    EXPECT_EQ(status->waiting, 2u);
    EXPECT_EQ(status->connections, 3u) << "with the one that asks";
  });
}

TEST_F(StoreCommandTest, ServeWritesAndRemovesItsPortFile) {
  const std::string file = folder_ + "/port";
  serve({"--port-file", file}, [&](const std::string& address, int) {
    EXPECT_EQ("127.0.0.1:" + contents(file), address + "\n");
  });
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(StoreCommandTest, ServeAcceptsAListeningDescriptor) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const auto port = acceptor.local_endpoint().port();
  int out[2];
  ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
  const UniqueFd from(out[0]);
  UniqueFd to(out[1]);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(to.get(), STDOUT_FILENO);
    ::dup2(acceptor.native_handle(), 9);
    ::execl(DISTRUN_PROGRAM, "distrun", "store", "serve", "--listen-fd", "9", nullptr);
    ::_exit(127);
  }
  to.reset();
  std::array<char, 100> address;
  const auto size = ::read(from.get(), address.data(), address.size());
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(address.data(), static_cast<std::size_t>(size)),
            "127.0.0.1:" + std::to_string(port) + "\n");
  testing::Client client(port);
  client.send(testing::greeting());
  EXPECT_TRUE(client.round_trip());
  ::kill(pid, SIGTERM);
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_F(StoreCommandTest, LimitsAreFlagsAndRefusalsGoToStderr) {
  const auto served = serve(
      {"--max-key", "10", "--max-value", "1K", "--max-memory", "64K", "--max-connections", "100"},
      [&](const std::string& address, int) {
        const auto result = script(R"(
distrun store set 123456789 yes && echo set
distrun store set 1234567890 no || echo $?
head -c 1024 /dev/zero | distrun store set v && echo set
head -c 1025 /dev/zero | distrun store set w || echo $?
i=0; while head -c 1024 /dev/zero | distrun store set f$i; do i=$((i+1)); done 2>/dev/null
test $i -gt 40 && test $i -lt 64 && echo full
distrun store get 123456789)",
                                   address);
        EXPECT_EQ(result.out, "set\n125\nset\n125\nfull\nyes");
        EXPECT_THAT(result.err, HasSubstr("it refused the client or the request"));
      });
  EXPECT_THAT(served.err, HasSubstr("set with a key of 11 bytes: at most 10 are allowed\n"));
  EXPECT_THAT(served.err, HasSubstr("set with a value of 1025 bytes: at most 1024 are allowed\n"));
  EXPECT_THAT(served.err, HasSubstr("set, and the store is full: "));
}

TEST_F(StoreCommandTest, TenThousandIdleConnectionsDoNotDelayOthers) {
  constexpr int kConnections = 10'000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < kConnections + 100) {
    GTEST_SKIP() << "only " << limit.rlim_max << " descriptors are allowed here (ulimit -Hn)";
  }
  const rlim_t allowed = limit.rlim_cur;
  const auto allow = [&](rlim_t descriptors) {
    limit.rlim_cur = descriptors;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  };
  allow(1024);  // A shell's limit, which the server must raise.
  serve({}, [&](const std::string& address, int) {
    allow(limit.rlim_max);
    const auto port = parse_store_address(address).value().port;
    std::vector<testing::Client> clients;
    for (int i = 0; i < kConnections; ++i) {
      clients.emplace_back(port);
      ASSERT_TRUE(clients.back().send(testing::greeting()));
    }
    EXPECT_TRUE(clients.front().round_trip());
    EXPECT_TRUE(clients.back().round_trip());
    auto store = StoreClient::connect({"127.0.0.1", port}, std::chrono::seconds(10)).value();
    const auto status = store_status_from_json(store.status().value()).value();
    EXPECT_EQ(status.connections, kConnections + 1u);
    EXPECT_EQ(status.refused, 0u);
    EXPECT_LT(status.bytes, 10u * 1024 * 1024);
  });
  allow(allowed);
}

// Clients that cannot be accepted wait in the kernel's queue, and are served when others leave.
TEST_F(StoreCommandTest, WhenDescriptorsRunOutClientsWait) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers look at memory through pipes: they need descriptors themselves";
#endif
  for (const char* flag : {"", "--same-user"}) {
    const auto result = script("ulimit -n 20; exec distrun store serve " + std::string(flag), "",
                               [](const std::string& address) {
                                 const auto port = parse_store_address(address).value().port;
                                 std::vector<std::unique_ptr<testing::Client>> clients;
                                 for (int i = 0; i < 40; ++i) {
                                   clients.push_back(std::make_unique<testing::Client>(port));
                                   clients.back()->send(testing::greeting());
                                 }
                                 EXPECT_TRUE(clients.front()->round_trip());
                                 for (auto& client : clients) {
                                   EXPECT_TRUE(client->round_trip());
                                   client.reset();
                                 }
                               });
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(StoreCommandTest, ServeContinuesWithoutAReaderAndUnderNohup) {
  const auto result = script(R"(
mkfifo out
(trap '' HUP; exec distrun store serve >out 2>&1) & server=$!
export DISTRUN_STORE=$(head -n 1 out)   # Then nobody reads any more.
for i in 1 2 3; do head -c 9000000 /dev/zero | distrun store set large; done 2>/dev/null
kill -HUP $server
distrun store set small value && distrun store get small
kill $server; wait $server; echo " $?")");
  EXPECT_EQ(result.out, "value 0\n");
}

TEST_F(StoreCommandTest, ServeReplacesOnlyRegularFiles) {
  const auto result = script(R"(
mkfifo fifo; ln -s nowhere link; mkdir folder
for place in fifo link folder; do distrun store serve --port-file $place; echo $?; done
test -p fifo && test -h link && test -d folder && echo there)");
  EXPECT_EQ(result.out, "2\n2\n2\nthere\n");
  EXPECT_THAT(result.err,
              HasSubstr("cannot write --port-file fifo: it exists and is not a regular file\n"));
}

TEST_F(StoreCommandTest, CompareSetCreatesAKeyOnlyIfNothingIsExpected) {
  serve({}, [&](const std::string& address, int) {
    const auto result = script(R"(
distrun store compare-set k x x || echo $?
distrun store get k || echo $?
distrun store compare-set k '' x && distrun store compare-set k x x && echo holds)",
                               address);
    EXPECT_EQ(result.out, "x\n1\n4\nx\nx\nholds\n");
  });
}

TEST_F(StoreCommandTest, KeysMayLookLikeLists) {
  serve({}, [&](const std::string& address, int) {
    const auto result = script(R"(
distrun store set '[a,b]' 1 && distrun store wait --timeout 10 '[a,b]' && echo there
distrun store wait --timeout 0 '[a]' || echo $?)",
                               address);
    EXPECT_EQ(result.out, "there\n3\n");
    EXPECT_THAT(result.err, HasSubstr("not set: [a] "));
  });
}

TEST_F(StoreCommandTest, StatusFindsClientsOnEveryAddressOfTheStore) {
  serve({"--host", "::"}, [&](const std::string& address, int) {
    const auto port = address.substr(address.rfind(':'));
    const auto result = script("RANK=0 WORLD_SIZE=2 distrun store wait k --store 127.0.0.2" + port +
                               " & RANK=1 WORLD_SIZE=2 distrun store wait k --store '[::1]" + port +
                               "' & export DISTRUN_STORE=127.0.0.1" + port + R"(
for i in $(seq 500); do
  status=$(distrun store status)
  case $status in *'2 connections'*' for k'*' for k') break;; esac
done
echo "$status"; distrun store set k v; wait)");
    EXPECT_THAT(result.out, HasSubstr("rank 0 (pid "));
    EXPECT_THAT(result.out, HasSubstr("rank 1 (pid "));
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("status\n"))) << "itself";
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("not connected")));
  });
}

TEST_F(StoreCommandTest, AWorkerFindsTheStoreOfItsRun) {
  const auto result =
      script(R"(export DISTRUN_STORE=127.0.0.1:1; distrun launch --nproc-per-node 2 sh -c '
distrun store set rank/$RANK here; distrun store wait --timeout 30 rank/0 rank/1 && echo met')");
  EXPECT_EQ(result.out, "met\nmet\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(StoreCommandTest, FailedRunReportsRefusedStoreClients) {
  const auto result = script(R"(distrun launch sh -c '
head -c 9000000 /dev/zero | distrun store set large || exit 9')");
  EXPECT_EQ(exit_code(result), 9);
  EXPECT_THAT(result.err, HasSubstr("\n  the store refused a client: set with a value of 9000000 "
                                    "bytes: at most 8388608 are allowed\n"));
}

TEST_F(StoreCommandTest, SameUserKeepsOthersOutOfTheStore) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  // Other users may not have access to the build folder.
  std::filesystem::copy_file(DISTRUN_PROGRAM, folder_ + "/distrun");
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  for (const auto& [flag, outcome] : {std::pair("", "0"), {"--same-user", "125"}}) {
    const auto result =
        script("distrun launch " + std::string(flag) +
               " sh -c 'setpriv --reuid 65534 --clear-groups ./distrun store set k v"
               " --connect-timeout 0 2>/dev/null; echo $?; distrun store keys'");
    EXPECT_EQ(result.out, std::string(outcome) + (*flag == 0 ? "\nk\n" : "\n"));
  }
}

TEST_F(StoreCommandTest, UsageErrorsSayWhatToDo) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"distrun store", "distrun store: a command is required"},
      {"distrun store foo", "distrun store: unknown command foo"},
      {"distrun store get", "distrun store get: KEY is required"},
      {"distrun store get k", "distrun store get: no store was given; use --store HOST:PORT"},
      {"distrun store get k --store here", "'here' is not HOST:PORT"},
      {"distrun store get k --store ::1:80", "'::1:80' is not HOST:PORT"},
      {"distrun store add k one --store h:1", "NUMBER: 'one' is not a whole number"},
      {"distrun store barrier k '' --store h:1", "COUNT: '' is not a whole number"},
      {"distrun store add k '' --store h:1", "NUMBER: '' is not a whole number"},
      {"distrun store wait --store h:1 --now k", "unknown flag --now"},
      {"distrun store serve --listen-fd ''", "--listen-fd: '' is not a whole number"},
      {"distrun store barrier k 0 --store h:1", "COUNT: 0 is not between 1 and"},
      {"distrun store wait k --timeout soon --store h:1", "'soon' is not a number of seconds"},
      {"distrun store serve --port 70000", "--port: 70000 is not between 0 and 65535"},
      {"distrun store serve --host nowhere.invalid", "is not an IPv4 or IPv6 address"},
      {"distrun store serve --max-memory lots", "'lots' is not a size"},
      {"distrun store serve --max-value 2G", "--max-value: is more than 1G"},
      {"distrun store serve --listen-fd 0 --port 1", "cannot be combined"},
      {"distrun store serve --listen-fd 0 </dev/null",
       "file descriptor 0 is not a listening TCP socket"},
      {"distrun store serve extra", "extra"},
      {"distrun store serve --port-file /nowhere/port",
       "write --port-file /nowhere/port: no such file or directory"},
  };
  for (const auto& [command, problem] : wrong) {
    const auto result = script("unset MASTER_ADDR MASTER_PORT DISTRUN_STORE; " + command);
    EXPECT_EQ(exit_code(result), 2) << command << ": " << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(problem));
  }
}

TEST_F(StoreCommandTest, FailuresReportTheirCause) {
  serve({}, [&](const std::string& address, int) {
    const auto port = address.substr(address.rfind(':') + 1);
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"distrun store serve --port " + port,
         "distrun store serve: 127.0.0.1:" + port + ": address already in use by distrun (pid "},
        {"distrun store serve --port " + port, "); give another --port, or 0 for a free one\n"},
        {"distrun store get k --connect-timeout 0 --store 127.0.0.1:1",
         "distrun store get: store at 127.0.0.1:1: connection refused\n"},
        {"distrun store set k value; distrun store get k > /dev/full",
         "distrun store get: write to stdout"},
        {"distrun store set k < /", "read the value from stdin: is a directory"},
    };
    for (const auto& [command, problem] : wrong) {
      const auto result = script(command, address);
      EXPECT_EQ(exit_code(result), 125) << command << ": " << result.err;
      EXPECT_THAT(result.err, HasSubstr(problem));
    }
  });
}

}  // namespace
}  // namespace distrun
