#include "testsuites/harness/run/test_host_process.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/packet_socket.h"
#include "common/text/captured_text.h"
#include "launcher/process/worker_process.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/harness/protocol/test_list_json.h"
#include "testsuites/harness/run/pipe_reader.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kEndTimeout{20};
constexpr const char* kNoTestProgram = "; a test program must link distrun::testing_main";

// A host that is stuck in the kernel is not reaped.
bool ends_soon(const UniqueFd& pidfd) {
  const auto deadline = std::chrono::steady_clock::now() + kEndTimeout;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd exit{pidfd.get(), POLLIN, 0};
    const int ready = ::poll(&exit, 1, std::max(static_cast<int>(left.count()), 0));
    if (ready >= 0) return ready == 1;
  }
}

Result<std::string> content_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return Error::from_errno("read the list of tests");
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const auto size = ::pread(file, text.data(), text.size(), 0);
  if (size != status.st_size) return Error::from_errno("read the list of tests");
  return text;
}

}  // namespace

struct TestHostProcess::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, Handlers to)
      : io(loop), handlers(std::move(to)), socket(loop), exit(loop), patience(loop) {}

  struct Unsent {
    std::uint64_t key;
    std::string packet;
    std::vector<UniqueFd> descriptors;
  };

  asio::io_context& io;
  Handlers handlers;
  WorkerProcess process;
  asio::posix::stream_descriptor socket, exit;
  asio::steady_timer patience;
  CapturedText printed;
  std::optional<PipeReader> printing;
  std::deque<Unsent> unsent;
  std::set<std::uint64_t> never_sent;
  std::string remedy;
  bool sending = false, lost = false;
  bool has_listed = false;  // Its tests.

  void begin(WorkerProcess started, UniqueFd control, UniqueFd output,
             std::chrono::milliseconds ready_timeout) {
    process = std::move(started);
    ::fcntl(control.get(), F_SETFL, O_NONBLOCK);
    socket.assign(control.release());
    exit.assign(::dup(process.pidfd.get()));
    printing.emplace(
        io, std::move(output), [this](std::string_view bytes) { printed.add(bytes); }, [] {});
    patience.expires_after(ready_timeout);
    patience.async_wait([self = shared_from_this(), ready_timeout](error_code error) {
      if (error) return;
      self->lose(fmt::format("it did not list its tests within {:g} s{}",
                             std::chrono::duration<double>(ready_timeout).count(), self->remedy));
    });
    receive();
    exit.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](error_code error) {
                      if (!error) self->exited();
                    });
  }

  void receive() {
    socket.async_wait(asio::posix::stream_descriptor::wait_read,
                      [self = shared_from_this()](error_code error) {
                        if (error || self->lost) return;
                        self->take_packets();
                        if (!self->lost && self->socket.is_open()) self->receive();
                      });
  }

  void take_packets() {
    while (!lost && socket.is_open()) {
      auto packet = receive_packet(socket.native_handle());
      if (!packet && packet.error().kind == ErrorKind::kTimedOut) return;
      if (!packet) return lose(packet.error().message);
      if (packet->has_ended) {  // Its exit says more.
        error_code ignored;
        socket.close(ignored);
        return;
      }
      const auto message = parse_from_host(packet->bytes, packet->descriptors.size());
      if (!message) return lose(message.error().message);
      std::visit([&](const auto& what) { take(what, packet->descriptors); }, *message);
    }
  }

  void take(const HostReady&, std::vector<UniqueFd>& descriptors) {
    patience.cancel();
    auto list = content_of(descriptors.front().get());
    if (!list) return lose(list.error().message);
    auto tests = parse_test_list(*list);
    if (!tests) return lose(tests.error().message);
    has_listed = true;
    handlers.on_ready(std::move(*tests));
  }
  void take(const RankForked& forked, std::vector<UniqueFd>& descriptors) {
    handlers.on_forked(forked, std::move(descriptors.front()));
  }
  void take(const RankNotForked& not_forked, std::vector<UniqueFd>&) {
    handlers.on_not_forked(not_forked);
  }
  void take(const RankEnded& ended, std::vector<UniqueFd>&) { handlers.on_ended(ended); }

  void exited() {
    take_packets();  // Packets and exit may be seen together.
    const auto end = look_at_end(process);
    if (has_listed) return lose(end ? describe(*end) : "it ended");
    if (end && std::holds_alternative<KilledBy>(*end)) {
      return lose("it crashed before it listed its tests: " + describe(*end));
    }
    lose(fmt::format("it ended without listing its tests{}{}",
                     end ? " (" + describe(*end) + ")" : "", remedy));
  }

  void lose(const std::string& reason) {
    if (std::exchange(lost, true)) return;
    printing->drain();  // Its last output may arrive after its exit.
    const std::string text = printed.text();
    close();
    handlers.on_lost(text.empty() ? reason : reason + "\n" + text);
  }

  void send() {
    while (!unsent.empty() && !lost && socket.is_open()) {
      std::vector<int> fds;
      for (const UniqueFd& fd : unsent.front().descriptors) fds.push_back(fd.get());
      const auto sent = send_packet(socket.native_handle(), unsent.front().packet, fds);
      if (!sent && sent.error().kind == ErrorKind::kTimedOut) return wait_to_send();
      if (!sent && sent.error().kind == ErrorKind::kNotFound) return;  // Its exit follows.
      if (!sent) not_sent(unsent.front().key, sent.error());
      unsent.pop_front();
    }
  }

  void not_sent(std::uint64_t key, const Error& error) {
    asio::post(io, [self = shared_from_this(), key, problem = error.message] {
      // The caller may be gone by now.
      if (!self->lost) self->handlers.on_not_forked({key, problem});
    });
  }

  void wait_to_send() {
    if (std::exchange(sending, true)) return;
    socket.async_wait(asio::posix::stream_descriptor::wait_write,
                      [self = shared_from_this()](error_code error) {
                        self->sending = false;
                        if (!error) self->send();
                      });
  }

  void close() {
    error_code ignored;
    socket.close(ignored);
    exit.close(ignored);
    patience.cancel();
    for (const Unsent& one : unsent) never_sent.insert(one.key);
    unsent.clear();
  }
};

Result<std::unique_ptr<TestHostProcess>> TestHostProcess::start(
    asio::io_context& io, const std::vector<std::string>& command, const Environment& environment,
    bool keeps_terminal, Handlers handlers, std::chrono::milliseconds ready_timeout) {
  auto sockets = make_packet_sockets();
  if (!sockets) return sockets.error();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe");
  UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  Environment own = environment;
  own.set(kTestHostVariable, "1");
  own.set(kRankMarkVariable, rank_mark(""));
  auto started = spawn_process({.executable = command.front(),
                                .arguments = command,
                                .environment = std::move(own),
                                .in = sockets->second.get(),
                                .out = to.get(),
                                .err = to.get(),
                                .keeps_session = keeps_terminal});
  if (!started) return started.error();
  auto impl = std::make_shared<Impl>(io, std::move(handlers));
  // A command with arguments is a host of distrun's own.
  if (command.size() == 1) impl->remedy = kNoTestProgram;
  impl->begin(std::move(*started), std::move(sockets->first), std::move(from), ready_timeout);
  return std::unique_ptr<TestHostProcess>(new TestHostProcess(std::move(impl)));
}

TestHostProcess::TestHostProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

TestHostProcess::~TestHostProcess() {
  impl_->lost = true;
  impl_->close();
  signal_group(impl_->process, SIGKILL);
  if (ends_soon(impl_->process.pidfd)) end_group(impl_->process);
}

bool TestHostProcess::is_unsent(std::uint64_t key) const {
  const auto& unsent = impl_->unsent;
  return impl_->never_sent.contains(key) ||
         std::any_of(unsent.begin(), unsent.end(), [&](const auto& one) { return one.key == key; });
}

void TestHostProcess::give_up(const std::string& reason) {
  asio::post(impl_->io, [impl = impl_, reason] { impl->lose(reason); });
}

void TestHostProcess::fork(const ForkRank& request, std::vector<UniqueFd> descriptors) {
  impl_->unsent.push_back({request.key, to_packet(request), std::move(descriptors)});
  impl_->send();
}

pid_t TestHostProcess::pid() const { return impl_->process.pid; }

}  // namespace distrun
