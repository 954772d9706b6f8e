// MetricsServer answers HTTP requests for the metrics of a run, as Prometheus makes them.
//
//     auto server = MetricsServer::open(io, "127.0.0.1", 9400, [&] { return metrics.text(…); });
//     if (!server) return server.error();            // as listening_socket.h says
//     (*server)->url()                               // http://127.0.0.1:9400/metrics
//
// It answers GET /metrics, one request per connection. A malformed request gets 400, another path
// 404, another method 405. Connections, and the time and size of a request, are bounded.
//
// Trust: anyone who reaches the port can read. Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "distrun/result.h"

namespace distrun {

class MetricsServer {
 public:
  using Text = std::function<std::string()>;

  // `host` is a numeric address; port 0 is a free one.
  static Result<std::unique_ptr<MetricsServer>> open(boost::asio::io_context& io,
                                                     const std::string& host, std::uint16_t port,
                                                     Text text);

  // Closes its connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  std::string url() const;

 private:
  struct Impl;
  explicit MetricsServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
