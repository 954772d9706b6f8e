// RunServer answers questions about a run, for `distrun stacks` and `distrun top`, from processes
// of the same user or root.
//
//     auto server = RunServer::open(io, {guard, launcher}, [&](std::string_view question) {
//       return question == "stacks" ? std::optional(…) : std::nullopt;
//     });
//
// A question is a line. The answer is the line "ok" and the text, then the end of the connection;
// or the line "unknown question". Thread safety: the thread of `io` only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>

#include "distrun/result.h"
#include "launcher/control/run_address.h"

namespace distrun {

class RunServer {
 public:
  // nullopt: unknown question.
  using Answer = std::function<std::optional<std::string>(std::string_view question)>;

  // Fails with kSystem if no socket can be created.
  static Result<std::unique_ptr<RunServer>> open(boost::asio::io_context& io,
                                                 const RunAddress& address, Answer answer);

  // Closes its connections.
  ~RunServer();
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

 private:
  struct Impl;
  explicit RunServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
