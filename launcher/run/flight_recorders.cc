#include "launcher/run/flight_recorders.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/os/whole_file.h"
#include "evidence/flight/flight_record.h"
#include "evidence/flight/pickle.h"
#include "evidence/operations/collective_table.h"

namespace distrun {

namespace {

constexpr std::chrono::milliseconds kLookInterval{10};
// Answers come within seconds. A later file is a watchdog's.
constexpr std::chrono::seconds kLateAnswerMax{30};
// A rank that started a collective more recently may not be waiting.
constexpr std::chrono::seconds kWaitMin{2};
// With PyTorch's 2000 entries, a dump has about 2 MiB.
constexpr std::size_t kDumpBytesMax = std::size_t{32} << 20;

// False if no process reads the pipe.
bool write_into(const std::string& pipe) {
  const UniqueFd fd(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  return fd && ::fstat(fd.get(), &status) == 0 && S_ISFIFO(status.st_mode) &&
         ::write(fd.get(), "1", 1) == 1;
}

}  // namespace

FlightRecorders::Version FlightRecorders::version(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  const auto& changed = status.st_mtim;
  return {
      .inode = status.st_ino,
      .changed = std::chrono::seconds(changed.tv_sec) + std::chrono::nanoseconds(changed.tv_nsec),
      .size = status.st_size};
}

void FlightRecorders::begin_attempt(const RunPlace& place) {
  attempt_ = place.attempt;
  workers_.clear();
  members_.clear();
  kept_.clear();
  others_.clear();
  for (const WorkerPlan& worker : plan_.workers) {
    auto files = flight_files(plan_, place, worker);
    if (!files) return;
    const Version before = version(files->dump);
    workers_.push_back(
        {.rank = worker.rank, .files = std::move(*files), .seen = before, .reported = before});
  }
}

void FlightRecorders::keep() {
  for (Worker& worker : workers_) {
    worker.is_asked = false;
    if (!worker.has_answered) continue;
    const auto is_its = [&](const RankFlight& one) { return one.rank == worker.rank; };
    std::erase_if(kept_, is_its);
    kept_.push_back({.attempt = attempt_,
                     .rank = worker.rank,
                     .operations = worker.operations,
                     .members = members_});
  }
}

void FlightRecorders::end_attempt() {
  for (Worker& worker : workers_) {
    worker.has_answered = false;
    // The run went on after an earlier question.
    if (!may_be_late_answer(worker)) read_newer(worker, worker.seen);
  }
  keep();
  for (const Worker& worker : workers_) {
    struct stat status {};
    const std::string& pipe = worker.files.pipe;
    const bool is_pipe = ::lstat(pipe.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
    if (worker.files.owns_pipe && is_pipe) ::unlink(pipe.c_str());
  }
}

void FlightRecorders::ask(const std::vector<Rank>& running, std::chrono::milliseconds patience) {
  deadline_ = {};
  patience_ = patience;
  asked_at_ = std::chrono::system_clock::now();
  for (Worker& worker : workers_) {
    worker.seen = version(worker.files.dump);
    worker.has_answered = false;
    const bool runs = std::find(running.begin(), running.end(), worker.rank) != running.end();
    worker.is_asked = runs && write_into(worker.files.pipe);
  }
}

bool FlightRecorders::is_waiting() {
  const auto now = std::chrono::steady_clock::now();
  if (deadline_ == std::chrono::steady_clock::time_point()) deadline_ = now + patience_;
  const bool is_time_up = now >= deadline_;
  if (is_time_up || now - looked_ >= kLookInterval) {
    looked_ = now;
    for (Worker& worker : workers_) {
      if (worker.is_asked) read_newer(worker, worker.seen);
      if (worker.is_asked && is_time_up) worker.is_silent = true;
    }
  }
  const auto waits = [](const Worker& worker) { return worker.is_asked && !worker.is_silent; };
  return !is_time_up && std::any_of(workers_.begin(), workers_.end(), waits);
}

std::string FlightRecorders::line() {
  CollectiveTable table(plan_.options.nnodes == 1);
  for (Worker& worker : workers_) {
    if (worker.is_asked) read_newer(worker, worker.seen);
    if (!worker.has_answered) continue;
    table.know_rank(worker.rank.value());
    for (const Operation& operation : worker.operations) {
      table.add(worker.rank.value(), operation);
    }
  }
  for (const auto& [group, ranks] : members_) table.know_members(group, ranks);
  return table.line();
}

std::string FlightRecorders::line_of_all_nodes() const {
  if (others_.empty()) return "";
  CollectiveTable table(/*sees_all_ranks=*/true);
  for (const auto* const all : {&kept_, &others_}) {
    for (const RankFlight& one : *all) {
      table.know_rank(one.rank.value());
      for (const Operation& operation : one.operations) table.add(one.rank.value(), operation);
      for (const auto& [group, ranks] : one.members) table.know_members(group, ranks);
    }
  }
  return table.line();
}

std::string FlightRecorders::line_of_watchdogs(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value());
  if (index >= workers_.size()) return "";
  if (!has_unreported_dump(workers_[index])) return "";
  for (Worker& worker : workers_) {
    worker.has_answered = worker.is_asked = false;
    if (has_unreported_dump(worker)) read_newer(worker, worker.reported);
    worker.reported = version(worker.files.dump);
  }
  keep();
  return line();
}

bool FlightRecorders::has_unreported_dump(const Worker& worker) {
  const Version now = version(worker.files.dump);
  return now != Version() && now != worker.reported && now != worker.answer;
}

bool FlightRecorders::may_be_late_answer(const Worker& worker) const {
  const std::chrono::system_clock::time_point written(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          version(worker.files.dump).changed));
  return worker.is_asked && written < asked_at_ + kLateAnswerMax;
}

void FlightRecorders::read_newer(Worker& worker, const Version& than) {
  const Version now = version(worker.files.dump);
  if (now == Version() || now == than) return;
  worker.seen = now;  // Also of a file that is being written: it changes once more.
  const auto bytes = read_whole_file(worker.files.dump, kDumpBytesMax);
  if (!bytes || !*bytes) return;
  const auto dump = read_pickle(**bytes);
  if (!dump) return;
  FlightRecord record = flight_record(*dump, plan_.world_size);
  const OperationTime written{now.changed};
  const OperationTime old =
      std::min<OperationTime>(std::chrono::system_clock::now(), written) - kWaitMin;
  for (Operation& operation : record.operations) {
    if (operation.began > old) operation.tells_end = false;
  }
  worker.operations = first_and_last(record.operations);
  members_.merge(record.members);
  if (worker.is_asked) worker.answer = now;
  worker.has_answered = true;
  worker.is_asked = worker.is_silent = false;
}

}  // namespace distrun
