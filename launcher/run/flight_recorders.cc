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

constexpr std::chrono::milliseconds kAnswerPatience{2500};
// Of an operation, for a rank to wait in it. PyTorch looks once a second whether it is asked.
constexpr std::chrono::seconds kWaitMin{2};
constexpr std::size_t kDumpBytesMax = std::size_t{64} << 20;

// False if nobody reads the pipe.
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
  workers_.clear();
  for (const WorkerPlan& worker : plan_.workers) {
    auto files = flight_files(plan_, place, worker);
    if (!files) return;
    const Version seen = version(files->dump);
    workers_.push_back({.rank = worker.rank, .files = std::move(*files), .seen = seen});
  }
}

bool FlightRecorders::has_new_dump(LocalRank worker) const {
  const auto index = static_cast<std::size_t>(worker.value());
  if (index >= workers_.size()) return false;
  const bool may_be_an_answer =
      workers_[index].is_asked && std::chrono::steady_clock::now() < deadline_;
  if (may_be_an_answer) return false;
  const Version now = version(workers_[index].files.dump);
  return now != Version() && now != workers_[index].seen;
}

void FlightRecorders::ask(const std::vector<Rank>& running) {
  look();
  begin_wait();
  for (Worker& worker : workers_) {
    if (!worker.is_final) worker.operations.clear();
    const bool runs = std::find(running.begin(), running.end(), worker.rank) != running.end();
    worker.is_asked = runs && write_into(worker.files.pipe);
  }
}

void FlightRecorders::begin_wait() {
  deadline_ = std::chrono::steady_clock::now() + kAnswerPatience;
}

bool FlightRecorders::is_waiting() {
  look();
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.is_asked; }) &&
         std::chrono::steady_clock::now() < deadline_;
}

std::string FlightRecorders::line() {
  look();
  CollectiveTable table(plan_.options.nnodes == 1);
  for (const Worker& worker : workers_) {
    for (const Operation& operation : worker.operations) {
      table.add(worker.rank.value(), operation);
    }
  }
  return table.line();
}

// A file that is still being written is no whole pickle.
void FlightRecorders::look() {
  for (Worker& worker : workers_) {
    const Version now = version(worker.files.dump);
    if (now == Version() || now == worker.seen) continue;
    const auto bytes = read_whole_file(worker.files.dump, kDumpBytesMax);
    if (!bytes || !*bytes) continue;
    const auto dump = read_pickle(**bytes);
    if (!dump) continue;
    worker.seen = now;
    worker.is_final = !std::exchange(worker.is_asked, false);
    worker.operations = operations_in(*dump, plan_.world_size);
    const OperationTime old = std::chrono::system_clock::now() - kWaitMin;
    for (Operation& operation : worker.operations) {
      if (operation.began > old) operation.tells_end = false;
    }
  }
}

}  // namespace distrun
