// HostConnection is ssh to one host of `--hosts`, and distrun's agent there.
//
//     HostConnection host(io, {.command = ssh, .read_program = …, .out = &out, .err = &err},
//                         {.on_ready = …, .on_ended = …});
//     if (auto started = host.start(environment); !started) return started.error();
//     …                                        // on_ready
//     host.write(encode(order));
//     …                                        // on_ended
//
// The output of the host goes to the sinks, in whole lines. Until the agent is ready, lines on its
// stdout are those of the user's shell, and are dropped. Thread safety: the thread of `io` only.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/streambuf.hpp>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "common/units.h"
#include "distrun/process_end.h"
#include "distrun/result.h"
#include "launcher/output/output_relay.h"
#include "launcher/output/output_sink.h"
#include "launcher/output/stream_output.h"
#include "launcher/process/worker_process.h"

namespace distrun {

class HostConnection {
 public:
  struct Options {
    std::vector<std::string> command;  // ssh and its arguments.
    // This program, for a host without it. Fails if it cannot be read.
    std::function<Result<std::shared_ptr<const std::string>>()> read_program;
    OutputSink* out = nullptr;  // Both must outlive this. They may be the same.
    OutputSink* err = nullptr;
  };
  struct Handlers {
    std::function<void()> on_copying;  // The program is sent to the host.
    std::function<void()> on_ready;
    std::function<void(const ProcessEnd&)> on_ended;  // ssh has ended. Nothing follows.
    std::function<void(const Error&)> on_problem;     // The program cannot be sent.
  };

  HostConnection(boost::asio::io_context& io, Options options, Handlers handlers);
  HostConnection(const HostConnection&) = delete;
  HostConnection& operator=(const HostConnection&) = delete;

  // `path` is the executable of the command's first word.
  Result<void> start(const std::string& path, const Environment& environment);

  void write(std::string bytes);

  // Closes the agent's stdin, once everything is written: the agent ends.
  void close();

  // Ends ssh, and so the agent.
  void kill();

  bool has_ended() const { return ended_; }
  bool is_ready() const { return is_ready_; }

 private:
  void write_next();
  void close_in();
  void read_line();
  void take_line(const std::string& line);
  void ready();
  void see_end();

  boost::asio::io_context& io_;
  const Options options_;
  const Handlers handlers_;
  std::optional<WorkerProcess> ssh_;
  boost::asio::posix::stream_descriptor in_, out_, end_;
  std::deque<std::shared_ptr<const std::string>> unwritten_;
  bool closes_ = false;
  boost::asio::streambuf lines_{64 * kKiB};
  std::optional<StreamOutput> out_lines_, err_lines_;
  std::optional<OutputRelay> out_relay_, err_relay_;
  std::array<char, 16 * kKiB> buffer_{};
  bool is_copying_ = false, is_ready_ = false, ended_ = false;
};

}  // namespace distrun
