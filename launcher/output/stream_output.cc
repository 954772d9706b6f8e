#include "launcher/output/stream_output.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>

namespace distrun {

namespace {

using Ending = LineSplitter::Ending;
using std::chrono::steady_clock;

constexpr std::size_t kBufferBytes = 4096;  // C's stdio on a pipe; Python's is 8 KiB.

// Whether `bytes` end with whole buffers that start after a newline: the next buffer has the rest
// of the last line.
bool ends_with_a_full_buffer(std::string_view bytes) {
  for (std::size_t size = kBufferBytes; size < bytes.size(); size += kBufferBytes) {
    if (bytes[bytes.size() - size - 1] == '\n') return true;
  }
  return false;
}

// "2026-03-14T15:09:26.535", in local time.
std::string time_text(std::chrono::system_clock::time_point now) {
  const auto since = std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch());
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since).count();
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}", local, since.count() % 1000);
}

}  // namespace

StreamOutput::StreamOutput(boost::asio::io_context& io, Options options)
    : options_(std::move(options)),
      lines_([this](std::string_view piece, Ending ending) { show(piece, ending); }),
      filter_lines_([this](std::string_view piece, Ending ending) { filter(piece, ending); },
                    LineSplitter::Returns::kKept),
      rest_(io) {
  if (options_.file) file_.emplace(io, options_.file.get(), options_.on_file_lost);
  render_prefix();
}

StreamOutput::~StreamOutput() { *exists_ = false; }

void StreamOutput::add(std::string_view bytes) {
  last_lines_.add(bytes);
  bytes_ += bytes.size();
  if (file_) file_->write(bytes);
  if (options_.captured != nullptr) options_.captured->add(bytes);
  if (options_.prefix.shows_time()) render_prefix();
  if (options_.console != nullptr && options_.as_it_comes) {
    options_.console->write(bytes);
  } else if (options_.console != nullptr) {
    const bool was_unfinished = lines_.has_unfinished();
    lines_.add(bytes);
    if (options_.unfinished_after) look_after_unfinished(bytes, was_unfinished);
  }
  if (options_.filtered) {
    filter_lines_.add(bytes);
    options_.filtered->flush();
  }
}

// The timeout starts with the first part of a line, not with its last one.
void StreamOutput::look_after_unfinished(std::string_view bytes, bool was_unfinished) {
  bytes_since_flush_ = bytes.ends_with('\n') ? 0 : bytes_since_flush_ + bytes.size();
  if (ends_with_a_full_buffer(bytes)) bytes_since_flush_ = kBufferBytes;
  if (!lines_.has_unfinished()) return;
  // If nothing waits, an earlier wait has ended and kept the part.
  if (!was_unfinished || !waiting_for_rest_ || bytes.find('\n') != std::string_view::npos) {
    unfinished_since_ = steady_clock::now();
  }
  if (!waiting_for_rest_) wait_for_rest();
}

void StreamOutput::wait_for_rest() {
  waiting_for_rest_ = true;
  rest_.expires_at(unfinished_since_ + *options_.unfinished_after);
  rest_.async_wait([this, exists = exists_](boost::system::error_code error) {
    if (error || !*exists) return;
    waiting_for_rest_ = false;
    const bool is_cut_by_a_buffer = bytes_since_flush_ % kBufferBytes == 0;
    if (!lines_.has_unfinished() || is_cut_by_a_buffer) return;
    const auto now = steady_clock::now();
    // A slow reader may delay the rest of the line.
    if (!options_.console->is_empty()) unfinished_since_ = now;
    if (now < unfinished_since_ + *options_.unfinished_after) return wait_for_rest();
    lines_.pass_unfinished();
  });
}

void StreamOutput::end() {
  rest_.cancel();
  lines_.end();
  filter_lines_.end();
  if (options_.filtered) options_.filtered->flush();
}

void StreamOutput::render_prefix() {
  const std::string time =
      options_.prefix.shows_time() ? time_text(std::chrono::system_clock::now()) : "";
  prefix_ = options_.prefix.text(options_.values, time);
  console_prefix_ =
      options_.coloured ? coloured(prefix_, LocalRank(options_.values.local_rank)) : prefix_;
}

void StreamOutput::show(std::string_view piece, Ending ending) {
  OutputSink& console = *options_.console;
  const bool interrupted = !console.line_is_open(this);
  std::string buffer;
  console.write(writer_.add(piece, ending, console_prefix_, interrupted, buffer), this);
}

void StreamOutput::filter(std::string_view lines, Ending ending) {
  while (!lines.empty()) {
    const std::size_t size = std::min(lines.find('\n'), lines.size() - 1) + 1;
    const std::string_view line = lines.substr(0, size);
    lines.remove_prefix(size);
    const bool wanted = std::any_of(
        options_.filters.begin(), options_.filters.end(),
        [&](const std::string& part) { return line.find(part) != std::string_view::npos; });
    if (!wanted) continue;
    options_.filtered->append(prefix_, this);
    options_.filtered->append(line, this);
    if (ending == Ending::kTooLong) options_.filtered->append("\n", this);
  }
}

}  // namespace distrun
