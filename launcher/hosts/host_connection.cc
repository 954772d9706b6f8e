#include "launcher/hosts/host_connection.h"

#include <csignal>
#include <istream>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "launcher/hosts/remote_shell.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

struct HostPipe {
  UniqueFd read, write;

  static Result<HostPipe> open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("pipe");
    return HostPipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
};

StreamOutput::Options whole_lines(OutputSink* console) {
  return {.console = console, .unfinished_after = StreamOutput::kUnfinishedAfter};
}

}  // namespace

HostConnection::HostConnection(asio::io_context& io, Options options, Handlers handlers)
    : io_(io),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      in_(io),
      out_(io),
      end_(io) {}

Result<void> HostConnection::start(const std::string& path, const Environment& environment) {
  auto in = HostPipe::open(), out = HostPipe::open(), err = HostPipe::open();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!*pipe) return pipe->error();
  }
  auto started = spawn_process({.executable = path,
                                .arguments = options_.command,
                                .environment = environment,
                                .in = in->read.get(),
                                .out = out->write.get(),
                                .err = err->write.get()});
  if (!started) return started.error();
  ssh_ = std::move(*started);
  in_.assign(in->write.release());
  in_.non_blocking(true);
  out_.assign(out->read.release());
  out_lines_.emplace(io_, whole_lines(options_.out));
  err_lines_.emplace(io_, whole_lines(options_.err));
  err_relay_.emplace(io_, std::move(err->read), *err_lines_, buffer_, [] {});
  end_.assign(::dup(ssh_->pidfd.get()));
  end_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (!error) see_end();
  });
  read_line();
  return {};
}

void HostConnection::write(std::string bytes) {
  if (!in_.is_open()) return;
  unwritten_.push_back(std::make_shared<const std::string>(std::move(bytes)));
  if (unwritten_.size() == 1) write_next();
}

void HostConnection::write_next() {
  if (unwritten_.empty()) {
    if (closes_) close_in();
    return;
  }
  asio::async_write(in_, asio::buffer(*unwritten_.front()), [this](error_code error, std::size_t) {
    if (error) {  // ssh has closed its stdin: see_end() follows.
      unwritten_.clear();
      return close_in();
    }
    unwritten_.pop_front();
    write_next();
  });
}

void HostConnection::close() {
  closes_ = true;
  if (unwritten_.empty()) close_in();
}

void HostConnection::close_in() {
  error_code ignored;
  in_.close(ignored);
}

void HostConnection::kill() {
  if (ssh_ && !ended_) signal_group(*ssh_, SIGKILL);
}

void HostConnection::read_line() {
  asio::async_read_until(out_, lines_, '\n', [this](error_code error, std::size_t) {
    if (error == asio::error::not_found) {
      return handlers_.on_problem(
          {ErrorKind::kProtocol, "the host's shell prints a line of more than 64 KiB"});
    }
    if (error) return;  // see_end() follows.
    std::istream text(&lines_);
    std::string line;
    std::getline(text, line);
    take_line(line);
  });
}

void HostConnection::take_line(const std::string& line) {
  if (line == kAgentReady) return ready();
  if (line == kCopyAsked && !std::exchange(is_copying_, true)) {
    const auto program = options_.read_program();
    if (!program) return handlers_.on_problem(program.error());
    handlers_.on_copying();
    unwritten_.push_back(*program);
    if (unwritten_.size() == 1) write_next();
  }
  read_line();
}

void HostConnection::ready() {
  is_ready_ = true;
  const auto rest = lines_.data();
  out_lines_->add({static_cast<const char*>(rest.data()), rest.size()});
  out_relay_.emplace(io_, UniqueFd(out_.release()), *out_lines_, buffer_, [] {});
  handlers_.on_ready();
}

void HostConnection::see_end() {
  const auto how = look_at_end(*ssh_);
  if (!how) return;
  ended_ = true;
  end_group(*ssh_);
  if (out_relay_) out_relay_->close();
  if (err_relay_) err_relay_->close();
  error_code ignored;
  in_.close(ignored);
  out_.close(ignored);
  handlers_.on_ended(*how);
}

}  // namespace distrun
