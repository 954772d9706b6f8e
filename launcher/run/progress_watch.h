// ProgressWatch notices when no worker of this node makes progress any more.
//
//     ProgressWatch watch(io, limit, mark, [&](bool is_quiet) { … });
//     watch.begin();               // an attempt starts
//     …
//     watch.resume();              // it goes on after Ctrl-Z
//     …
//     watch.end();                 // `on_change` is not called any more
//
// `mark` measures progress: bytes written, sent and received, and so on. It returns nullopt while
// workers wait for distrun. If the mark stays the same for `limit`, the node is quiet. `on_change`
// is called when it becomes quiet, and when it makes progress again.
//
// Thread safety: the thread of `io` only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace distrun {

// Any difference is progress; a closed connection makes `traffic` smaller.
struct ProgressMark {
  std::uint64_t output = 0;      // Bytes.
  std::uint64_t store = 0;       // Changes of values.
  std::uint64_t running = 0;     // Workers.
  std::uint64_t operations = 0;  // Collectives, sends and receives that they have started.
  std::uint64_t traffic = 0;     // Bytes.

  friend bool operator==(const ProgressMark&, const ProgressMark&) = default;
};

// Decides from marks and the times of their readings. Pure.
class QuietTime {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Marks are read every `period`.
  QuietTime(std::chrono::milliseconds limit, std::chrono::milliseconds period);

  // Whether all marks for `limit` were equal to this one. A gap between readings, in which this
  // process was stopped, counts as at most two periods.
  bool is_over(const std::optional<ProgressMark>& mark, TimePoint now);

  void begin() { last_.reset(); }

 private:
  struct Seen {
    ProgressMark mark;
    TimePoint at;
    TimePoint::duration quiet{0};
  };
  std::chrono::milliseconds limit_, period_;
  std::optional<Seen> last_;
};

class ProgressWatch {
 public:
  ProgressWatch(boost::asio::io_context& io, std::chrono::milliseconds limit,
                std::function<std::optional<ProgressMark>()> mark,
                std::function<void(bool is_quiet)> on_change);
  ProgressWatch(const ProgressWatch&) = delete;
  ProgressWatch& operator=(const ProgressWatch&) = delete;

  void begin();
  void resume();
  void end();

 private:
  void look();
  void wait();

  const std::function<std::optional<ProgressMark>()> mark_;
  const std::function<void(bool)> on_change_;
  const std::chrono::milliseconds period_;
  QuietTime quiet_time_;
  bool is_quiet_ = false, is_running_ = false;
  int waits_ = 0;  // A timer that has expired can no longer be cancelled.
  boost::asio::steady_timer timer_;
};

}  // namespace distrun
