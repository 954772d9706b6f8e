#include "testsuites/harness/test/forked_agent.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/die_with_parent.h"
#include "launcher/process/leaked_processes.h"
#include "testsuites/harness/nodes/node_agent.h"

namespace distrun::testing {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Calls `take` for each line, and `end` at the end.
void read_lines(asio::local::stream_protocol::socket& socket, std::string& received,
                const std::function<void(const std::string&)>& take,
                const std::function<void()>& end) {
  asio::async_read_until(socket, asio::dynamic_buffer(received), '\n',
                         [&socket, &received, take, end](error_code error, std::size_t size) {
                           if (error == asio::error::operation_aborted) return;
                           if (error) return end();
                           const std::string line = received.substr(0, size - 1);
                           received.erase(0, size);
                           take(line);
                           read_lines(socket, received, take, end);
                         });
}

[[noreturn]] void run_agent(int fd, const LocalNode::Options& options) {
  if (!become_subreaper()) ::_exit(125);
  asio::io_context io;
  asio::local::stream_protocol::socket socket(io, asio::local::stream_protocol(), fd);
  {
    NodeAgent agent(io, options,
                    {.send =
                         [&](std::string text) {
                           error_code ignored;
                           asio::write(socket, asio::buffer(text + '\n'), ignored);
                         },
                     .on_end = [&] { io.stop(); },
                     .on_garbage = [&](const Error&) { io.stop(); }});
    std::string received;
    read_lines(
        socket, received, [&](const std::string& line) { agent.take(line); }, [&] { io.stop(); });
    io.run();
  }
  kill_leaked_processes(std::chrono::seconds(10));
  ::_exit(0);
}

}  // namespace

ForkedAgent::ForkedAgent(asio::io_context& io, const LocalNode::Options& options) : socket_(io) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t test = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[0]);
    if (!die_with_parent(test)) ::_exit(125);
    run_agent(ends[1], options);
  }
  ::close(ends[1]);
  socket_.assign(asio::local::stream_protocol(), ends[0]);
  receive();
}

ForkedAgent::~ForkedAgent() { end(); }

// The runner may have reaped it.
void ForkedAgent::end() {
  error_code ignored;
  socket_.close(ignored);
  ::waitpid(pid_, nullptr, 0);
}

void ForkedAgent::receive() {
  read_lines(
      socket_, received_, [this](const std::string& line) { on_text(line); },
      [this] {
        if (on_end) on_end();
      });
}

void ForkedAgent::send(const std::string& text) {
  error_code ignored;
  asio::write(socket_, asio::buffer(text + '\n'), ignored);
}

}  // namespace distrun::testing
