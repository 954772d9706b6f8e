#include "launcher/output/output_relay.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/units.h"

namespace distrun {
namespace {

struct RelayPipe {
  RelayPipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }

  // Returns how many bytes fit.
  std::size_t fill() {
    const std::string bytes(4096, 'x');
    std::size_t written = 0;
    for (ssize_t size; (size = ::write(to.get(), bytes.data(), bytes.size())) > 0;) {
      written += static_cast<std::size_t>(size);
    }
    return written;
  }

  std::string take() {
    std::string bytes(1 << 20, '\0');
    const auto size = ::read(from.get(), bytes.data(), bytes.size());
    bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return bytes;
  }

  UniqueFd from, to;
};

class OutputRelayTest : public ::testing::Test {
 protected:
  // A worker whose output goes to the console unchanged.
  struct Worker {
    RelayPipe pipe;
    std::optional<StreamOutput> stream;
    std::unique_ptr<OutputRelay> relay;
    bool ended = false;
  };
  Worker& start() {
    Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
    worker.stream.emplace(io_, StreamOutput::Options{.console = &sink_, .as_it_comes = true});
    worker.relay = std::make_unique<OutputRelay>(io_, std::move(worker.pipe.from), *worker.stream,
                                                 buffer_, [&worker] { worker.ended = true; });
    return worker;
  }
  void poll() {
    io_.restart();
    io_.poll();
  }

  boost::asio::io_context io_;
  RelayPipe console_;
  OutputSink sink_{io_, console_.to.get(), nullptr};
  std::array<char, 64 * kKiB> buffer_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_F(OutputRelayTest, PassesOnBytesAndReportsTheEnd) {
  Worker& worker = start();
  EXPECT_EQ(::write(worker.pipe.to.get(), "hello", 5), 5);
  poll();
  EXPECT_EQ(console_.take(), "hello");
  EXPECT_FALSE(worker.ended);
  worker.pipe.to.reset();
  poll();
  EXPECT_TRUE(worker.ended);
  EXPECT_FALSE(worker.relay->close());
}

TEST_F(OutputRelayTest, CloseReadsTheRestAndReportsAnOpenPipe) {
  Worker& held = start();
  EXPECT_EQ(::write(held.pipe.to.get(), "held", 4), 4);
  EXPECT_TRUE(held.relay->close());
  Worker& ended = start();
  EXPECT_EQ(::write(ended.pipe.to.get(), "ended", 5), 5);
  ended.pipe.to.reset();
  EXPECT_FALSE(ended.relay->close());
  EXPECT_EQ(console_.take(), "heldended");
}

// Unread output stays in the workers' pipes, however many workers there are.
TEST_F(OutputRelayTest, StalledReaderStopsAllWorkersAtALimit) {
  constexpr std::size_t kWorkers = 40;
  for (std::size_t i = 0; i < kWorkers; ++i) start();
  std::size_t taken = 0, last = 1;
  for (; last > 0; taken += last) {
    last = 0;
    for (const auto& worker : workers_) last += worker->pipe.fill();
    poll();
  }
  const std::size_t pipes = (kWorkers + 1) * 64 * kKiB;
  EXPECT_LE(taken, pipes + OutputSink::kQueueBytesMax + buffer_.size());

  for (const auto& worker : workers_) worker->pipe.to.reset();
  std::size_t read = 0;
  for (std::size_t size = 1; size > 0; read += size) {
    size = console_.take().size();
    poll();
  }
  EXPECT_EQ(read, taken);
}

// Fails under sanitizers only.
TEST_F(OutputRelayTest, ConsoleDoesNotCallADestroyedRelay) {
  Worker& worker = start();
  while (worker.pipe.fill() > 0) poll();
  worker.relay.reset();
  for (std::size_t size = 1; size > 0;) {
    size = console_.take().size();
    poll();
  }
  EXPECT_TRUE(sink_.is_empty());
  EXPECT_FALSE(worker.ended);
}

}  // namespace
}  // namespace distrun
