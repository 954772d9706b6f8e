#include "launcher/run/run_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/units.h"
#include "launcher/output/output_relay.h"
#include "launcher/output/output_sink.h"
#include "launcher/output/stream_output.h"
#include "launcher/run/log_folder.h"

namespace distrun {

namespace asio = boost::asio;

namespace {

constexpr std::array kStreams = {Stream::kOut, Stream::kErr};

std::size_t index_of(Stream stream) { return stream == Stream::kOut ? 0 : 1; }

// True if both descriptors are the same terminal, pipe or file.
bool are_the_same(int one, int other) {
  struct stat a {
  }, b{};
  const auto writes = [](int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  };
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino && writes(one) && writes(other);
}

bool shows_colours(int fd, const Environment& environment) {
  // https://no-color.org
  return ::isatty(fd) != 0 && environment.get("NO_COLOR").value_or("").empty() &&
         environment.get("TERM") != "dumb";
}

// For a file that a worker writes itself.
LastLines last_lines_of(const std::string& path) {
  LastLines last;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return last;
  std::array<char, 16 * kKiB> end;
  const auto from = std::max<off_t>(status.st_size - static_cast<off_t>(end.size()), 0);
  const auto size = ::pread(file.get(), end.data(), end.size(), from);
  if (size > 0) last.add({end.data(), static_cast<std::size_t>(size)});
  return last;
}

}  // namespace

struct RunOutput::Impl {
  struct WorkerStream {
    StreamRoute route;
    UniqueFd from;  // The pipe, until watch().
    std::unique_ptr<StreamOutput> output;
    std::unique_ptr<OutputRelay> relay;

    LastLines last_lines() const {
      if (output) return output->last_lines();
      return route.file.empty() ? LastLines() : last_lines_of(route.file);
    }

    std::uint64_t bytes() const {
      if (output) return output->bytes();
      struct stat status {};
      const bool has_file = !route.file.empty() && ::stat(route.file.c_str(), &status) == 0;
      return has_file ? static_cast<std::uint64_t>(status.st_size) : 0;
    }
  };

  struct WorkerOutput {
    std::array<WorkerStream, 2> streams;
    int open = 0;  // Streams that are read and have not ended.
    CapturedText captured;
  };

  Impl(asio::io_context& context, const LaunchPlan& run, std::string run_folder, Consoles to,
       std::function<void(const Lost&)> tell)
      : io(context),
        plan(run),
        log(run.options.log),
        folder(std::move(run_folder)),
        consoles(std::move(to)),
        on_lost(std::move(tell)) {
    const auto lost = [this](int error) { console_lost(error); };
    if (!are_the_same(consoles.out, consoles.err)) out.emplace(io, consoles.out, lost);
    err.emplace(io, consoles.err, lost);
    copy_consoles();
    shown_workers = std::count_if(plan.workers.begin(), plan.workers.end(), [&](const auto& one) {
      return std::any_of(kStreams.begin(), kStreams.end(), [&](Stream stream) {
        return route_of(log, folder, one.local_rank, stream, 0).shown;
      });
    });
  }

  asio::io_context& io;
  const LaunchPlan& plan;
  const LogChoice& log;
  const std::string folder;
  const Consoles consoles;
  std::function<void(const Lost&)> on_lost;
  std::optional<OutputSink> out, err;  // No `out`: `err` is the same console.
  std::ptrdiff_t shown_workers = 0;    // Workers that write to the console.
  int attempt = 0;
  std::array<UniqueFd, 2> filtered_files;
  std::array<std::shared_ptr<OutputSink>, 2> filtered;  // By stream.
  std::vector<WorkerOutput> workers;                    // By local rank.
  std::array<char, 64 * kKiB> buffer;                   // Shared by all relays.

  WorkerOutput& at(LocalRank worker) { return workers[static_cast<std::size_t>(worker.value())]; }

  void copy_consoles() {
    if (!consoles.copy) return;
    const auto copy_of = [this](Stream stream) {
      return [this, stream](std::string_view bytes) { consoles.copy(stream, bytes); };
    };
    if (out) out->copy_to(copy_of(Stream::kOut));
    err->copy_to(copy_of(out ? Stream::kErr : Stream::kOut));
  }

  int console_fd(Stream stream) const {
    return stream == Stream::kOut ? consoles.out : consoles.err;
  }
  OutputSink& console(Stream stream) { return stream == Stream::kOut && out ? *out : *err; }

  void console_lost(int error) {
    on_lost({error == EPIPE, Error::from_errno("write what the workers print", error)});
  }

  std::function<void(int)> file_lost(const std::string& path) {
    return [this, path](int error) { on_lost({false, Error::from_errno("write " + path, error)}); };
  }

  // The stream's prefix on the console; may be empty.
  PrefixTemplate prefix_of(const StreamRoute& route, Stream stream) const {
    if (log.prefix) return *log.prefix;
    const bool is_mixed = shown_workers > 1 && ::isatty(console_fd(stream)) != 0;
    return route.teed || is_mixed ? log.tee_prefix : PrefixTemplate();
  }

  Result<std::shared_ptr<OutputSink>> filtered_for(const StreamRoute& route, Stream stream) {
    std::shared_ptr<OutputSink> none;
    if (!route.teed || !route.shown || log.filters(stream).empty()) return none;
    auto& sink = filtered[index_of(stream)];
    if (sink) return sink;
    const std::string path = filtered_file(folder, stream, attempt);
    auto file = open_log_file(path);
    if (!file) return file.error();
    filtered_files[index_of(stream)] = std::move(*file);
    sink =
        std::make_shared<OutputSink>(io, filtered_files[index_of(stream)].get(), file_lost(path));
    return sink;
  }

  // Returns the worker's descriptor.
  Result<UniqueFd> open(const WorkerPlan& worker, Stream stream, WorkerOutput& of_worker) {
    WorkerStream& opened = of_worker.streams[index_of(stream)];
    opened.route = route_of(log, folder, worker.local_rank, stream, attempt);
    const StreamRoute& route = opened.route;
    UniqueFd file;
    if (!route.file.empty()) {
      auto made = open_log_file(route.file);
      if (!made) return made.error();
      if (!route.piped) return std::move(*made);
      file = std::move(*made);
    }
    auto filter = filtered_for(route, stream);
    if (!filter) return filter.error();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return Error::from_errno("open a pipe for its output");
    opened.from.reset(ends[0]);
    UniqueFd to(ends[1]);

    StreamOutput::Options options;
    options.console = route.shown ? &console(stream) : nullptr;
    options.prefix = prefix_of(route, stream);
    options.as_it_comes = options.prefix.is_empty() && shown_workers == 1;
    // Lines must arrive whole if a program may read them.
    if (::isatty(console_fd(stream)) != 0) {
      options.unfinished_after = StreamOutput::kUnfinishedAfter;
    }
    options.values = {.role_name = plan.options.role,
                      .rank = worker.rank.value(),
                      .local_rank = local_place(plan, worker.local_rank).rank.value(),
                      .host = log.host,
                      .stream = std::string(name_of(stream))};
    options.coloured = shows_colours(console_fd(stream), plan.environment);
    options.file = std::move(file);
    options.on_file_lost = file_lost(route.file);
    options.filtered = *filter;
    options.filters = log.filters(stream);
    if (consoles.captures) options.captured = &of_worker.captured;
    opened.output = std::make_unique<StreamOutput>(io, std::move(options));
    return to;
  }
};

RunOutput::RunOutput(asio::io_context& io, const LaunchPlan& plan, std::string folder,
                     Consoles consoles, std::function<void(const Lost&)> on_lost)
    : impl_(std::make_unique<Impl>(io, plan, std::move(folder), std::move(consoles),
                                   std::move(on_lost))) {
  begin_attempt(0);
}

RunOutput::~RunOutput() = default;

void RunOutput::begin_attempt(int attempt) {
  impl_->attempt = attempt;
  impl_->workers = std::vector<Impl::WorkerOutput>(impl_->plan.workers.size());
  impl_->filtered = {};
  impl_->filtered_files = {};
}

Result<RunOutput::Descriptors> RunOutput::open(LocalRank worker) {
  const WorkerPlan& planned = impl_->plan.workers[static_cast<std::size_t>(worker.value())];
  if (impl_->log.keeps_files()) {
    const std::string folder = worker_folder(impl_->folder, worker, impl_->attempt);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return Error::from_errno("make the folder " + folder, error.value());
  }
  Impl::WorkerOutput& output = impl_->at(worker);
  auto out = impl_->open(planned, Stream::kOut, output);
  if (!out) return out.error();
  auto err = impl_->open(planned, Stream::kErr, output);
  if (!err) return err.error();
  return Descriptors{std::move(*out), std::move(*err)};
}

void RunOutput::watch(LocalRank worker, std::function<void()> on_end) {
  Impl::WorkerOutput& output = impl_->at(worker);
  // Posted: the call may end the attempt, and with it the running relay.
  const auto ended = [this, &output, on_end] {
    if (--output.open == 0) asio::post(impl_->io, on_end);
  };
  for (Impl::WorkerStream& stream : output.streams) {
    if (!stream.from) continue;
    ++output.open;
    stream.relay = std::make_unique<OutputRelay>(impl_->io, std::move(stream.from), *stream.output,
                                                 impl_->buffer, ended);
  }
  if (output.open == 0) asio::post(impl_->io, on_end);
}

void RunOutput::take(LocalRank worker) {
  for (Impl::WorkerStream& stream : impl_->at(worker).streams) {
    if (stream.relay) stream.relay->take();
  }
}

bool RunOutput::close(LocalRank worker) {
  bool held = false;
  for (Impl::WorkerStream& stream : impl_->at(worker).streams) {
    if (stream.relay && stream.relay->close()) held = true;
  }
  return held;
}

std::string RunOutput::last_output(LocalRank worker) const {
  const auto& streams = impl_->at(worker).streams;
  const LastLines err = streams[1].last_lines();
  return err.is_empty() ? streams[0].last_lines().text() : err.text();
}

std::string RunOutput::captured(LocalRank worker) const {
  return impl_->at(worker).captured.text();
}

std::uint64_t RunOutput::bytes(LocalRank worker) const {
  const auto& [out, err] = impl_->at(worker).streams;
  return out.bytes() + err.bytes();
}

std::uint64_t RunOutput::bytes() const {
  std::uint64_t all = 0;
  for (const WorkerPlan& worker : impl_->plan.workers) all += bytes(worker.local_rank);
  return all;
}

bool RunOutput::is_held_up() const {
  return (impl_->out && impl_->out->is_full()) || impl_->err->is_full();
}

std::string RunOutput::log_folder(LocalRank worker) const {
  const auto& streams = impl_->at(worker).streams;
  const bool has_files = !streams[0].route.file.empty() || !streams[1].route.file.empty();
  return has_files ? worker_folder(impl_->folder, worker, impl_->attempt) : "";
}

void RunOutput::when_drained(std::function<void()> act) {
  if (!impl_->out) return impl_->err->when_drained(std::move(act));
  impl_->out->when_drained([this, act = std::move(act)] { impl_->err->when_drained(act); });
}

void RunOutput::say(std::string_view text) {
  if (text.empty()) return;
  // Two descriptors may name the same terminal differently.
  const bool both = ::isatty(impl_->consoles.out) != 0 && ::isatty(impl_->consoles.err) != 0;
  OutputSink& err = *impl_->err;
  if (both && impl_->out && impl_->out->line_is_open() && !err.line_is_open()) {
    err.append("\n", this);
  }
  err.write(text, this);
}

}  // namespace distrun
