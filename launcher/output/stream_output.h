// StreamOutput is where one stream of a worker goes: to its log file, to the console, to the file
// of filtered lines; and its last lines are kept.
//
//     StreamOutput out(io, {.console = &console, .prefix = prefix, .values = values});
//     out.add(bytes);
//     out.end();
//     out.last_lines().text()
//
// The log file gets the bytes as they are.  The console gets whole lines, with the prefix, never
// mixed with those of others (line_splitter.h, line_writer.h); or, where nobody else writes to it
// and no prefix is wanted, the bytes as they come.
//
// Threads: as OutputSink.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/os/unique_fd.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/line_prefix.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/line_writer.h"
#include "launcher/output/output_sink.h"

namespace distrun {

class StreamOutput {
 public:
  struct Options {
    OutputSink* console = nullptr;  // Null: the stream is not shown.  Outlives this.
    bool as_it_comes = false;       // No prefix, and nobody else writes to the console.
    PrefixTemplate prefix;
    PrefixValues values;
    bool coloured = false;                        // The prefix.
    UniqueFd file;                                // None: no log file.
    std::function<void(int error)> on_file_lost;  // It could not be written.
    std::shared_ptr<OutputSink> filtered;         // None: no filtered lines.
    std::vector<std::string> filters;             // Lines that contain one of these go there.
  };

  StreamOutput(boost::asio::io_context& io, Options options);
  StreamOutput(const StreamOutput&) = delete;
  StreamOutput& operator=(const StreamOutput&) = delete;

  void add(std::string_view bytes);

  // The stream has ended.
  void end();

  // What decides when more is to be read: null where nothing can be slow.
  OutputSink* console() const { return options_.console; }

  const LastLines& last_lines() const { return last_lines_; }

 private:
  void render_prefix();
  void show(std::string_view piece, LineSplitter::Ending ending);
  void filter(std::string_view lines, LineSplitter::Ending ending);

  Options options_;
  std::string prefix_, console_prefix_;
  std::optional<OutputSink> file_;
  LastLines last_lines_;
  LineSplitter lines_;
  LineWriter writer_;
  LineSplitter filter_lines_;
};

}  // namespace distrun
