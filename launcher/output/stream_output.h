// StreamOutput passes one stream of a worker on to its log file, the console and the file of
// filtered lines, and keeps the last lines.
//
//     StreamOutput out(io, {.console = &console, .prefix = prefix, .values = values});
//     out.add(bytes);
//     out.end();
//     out.last_lines().text()
//
// The log file gets the bytes unchanged. So does the console under as_it_comes; otherwise it gets
// whole lines with the prefix (line_splitter.h, line_writer.h).
//
// A line that stays unfinished for kUnfinishedAfter is shown as it is: users see prompts and
// "Downloading…". Programs that buffer their output write 4 KiB at a time and cut lines anywhere:
// such parts are not shown.
//
// Thread safety: as OutputSink.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/os/unique_fd.h"
#include "common/text/captured_text.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/line_prefix.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/line_writer.h"
#include "launcher/output/output_sink.h"

namespace distrun {

class StreamOutput {
 public:
  static constexpr std::chrono::milliseconds kUnfinishedAfter{500};

  struct Options {
    OutputSink* console = nullptr;  // Null: not shown. Must outlive this.
    bool as_it_comes = false;       // No prefix; no other writer.
    std::optional<std::chrono::milliseconds> unfinished_after;  // nullopt: whole lines only.
    PrefixTemplate prefix;
    PrefixValues values;
    bool coloured = false;  // Colours the prefix.
    UniqueFd file;
    std::function<void(int error)> on_file_lost;  // A write failed.
    std::shared_ptr<OutputSink> filtered;
    std::vector<std::string> filters;  // A line is selected if it contains one of these.
    CapturedText* captured = nullptr;  // Gets everything. Must outlive this.
  };

  StreamOutput(boost::asio::io_context& io, Options options);
  StreamOutput(const StreamOutput&) = delete;
  StreamOutput& operator=(const StreamOutput&) = delete;
  ~StreamOutput();

  void add(std::string_view bytes);

  void end();

  // Reading pauses while this sink is full. Null: never.
  OutputSink* console() const { return options_.console; }

  const LastLines& last_lines() const { return last_lines_; }

  std::uint64_t bytes() const { return bytes_; }

 private:
  void render_prefix();
  void show(std::string_view piece, LineSplitter::Ending ending);
  void filter(std::string_view lines, LineSplitter::Ending ending);
  void look_after_unfinished(std::string_view bytes, bool was_unfinished);
  void wait_for_rest();

  Options options_;
  std::string prefix_, console_prefix_;
  std::optional<OutputSink> file_;
  LastLines last_lines_;
  std::uint64_t bytes_ = 0;
  LineSplitter lines_;
  LineWriter writer_;
  LineSplitter filter_lines_;
  // Times out an unfinished line.
  boost::asio::steady_timer rest_;
  std::chrono::steady_clock::time_point unfinished_since_;
  bool waiting_for_rest_ = false;
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);  // For callbacks that outlive this.
  std::size_t bytes_since_flush_ = 0;  // Since output last ended with a newline.
};

}  // namespace distrun
