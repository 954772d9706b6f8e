// Real launches with --metrics-port.
#include <fstream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::ContainsRegex;
using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;
using ::testing::StartsWith;

std::string get_metrics(std::uint16_t port) {
  asio::io_context io;
  tcp::socket socket(io);
  boost::system::error_code error;
  socket.connect({asio::ip::make_address("127.0.0.1"), port}, error);
  if (error) return error.message();
  asio::write(socket, asio::buffer(std::string_view("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")));
  std::string text;
  asio::read(socket, asio::dynamic_buffer(text), error);
  return text;
}

TEST(MetricsTest, ServesTheMetricsOfTheWorkers) {
  const Folder folder;
  const std::string go = folder.path() + "/go";
  testing::ProgramOptions options;
  std::string metrics;
  options.on_output = [&](const std::string& out, int) {
    if (!metrics.empty() || testing::lines(out).size() < 2 || out.back() != '\n') return;
    std::ifstream file(folder.path() + "/events");
    const std::string events{std::istreambuf_iterator<char>(file), {}},
        begin = "metrics are at http://127.0.0.1:";
    const auto at = events.find(begin);
    metrics = at == events.npos ? "no port"
                                : get_metrics(static_cast<std::uint16_t>(
                                      std::stoi(events.substr(at + begin.size(), 5))));
    std::ofstream(go).close();
  };
  const auto result = launch({"--metrics-port", "0", "--nproc-per-node", "2", "--rdzv-id", "story",
                              "--events", folder.path() + "/events", "sh", "-c",
                              "echo here; while [ ! -e " + go + " ]; do sleep 0.02; done"},
                             options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_THAT(result.err,
              ContainsRegex("^distrun: metrics are at http://127.0.0.1:[0-9]+/metrics\n$"));
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(metrics, HasSubstr("distrun_run_info{run_id=\"story\""));
  EXPECT_THAT(metrics, HasSubstr("\ndistrun_run_workers 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ndistrun_worker_up{rank=\"1\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ndistrun_worker_output_bytes_total{rank=\"1\"} 5\n"));
  EXPECT_THAT(metrics,
              ContainsRegex("\ndistrun_worker_cpu_seconds_total[{]rank=\"1\"[}] [0-9.]+\n"));
}

TEST(MetricsTest, ABusyPortIsAnErrorBeforeTheStart) {
  asio::io_context io;
  tcp::acceptor busy(io, {asio::ip::make_address("127.0.0.1"), 0});
  const std::string port = std::to_string(busy.local_endpoint().port());
  const auto result = launch({"--metrics-port", port, "sh", "-c", "echo started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("distrun launch: --metrics-port " + port +
                                     ": 127.0.0.1:" + port + ": address already in use by "));
  EXPECT_THAT(result.err, ::testing::EndsWith("; give another port, or 0 for a free one\n"));
}

}  // namespace
}  // namespace distrun
