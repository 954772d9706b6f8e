#include "launcher/run/operation_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace distrun {

namespace {

// A worker that starts more than kOperationSlots operations meanwhile loses some to the reader.
constexpr std::chrono::milliseconds kInterval{200};
// Of one worker, whose ends are waited for.
constexpr std::size_t kOpenMax = 4096;

}  // namespace

std::string OperationWatch::open() {
  auto pages = OperationPages::make(plan_.workers.size());
  if (!pages) return "";
  pages_.emplace(std::move(*pages));
  return pages_->file();
}

void OperationWatch::begin_attempt() {
  if (!pages_) return;
  pages_->clear();
  readers_.assign(plan_.workers.size(), {});
  if (std::exchange(has_ended_, false)) wait();
}

void OperationWatch::end() {
  if (std::exchange(has_ended_, true)) return;
  timer_.cancel();
  read_all();
  handlers_.on_read();
}

void OperationWatch::wait() {
  timer_.expires_after(kInterval);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || has_ended_) return;
    read(/*all=*/false);
    handlers_.on_read();
    wait();
  });
}

void OperationWatch::read_all() {
  if (pages_) read(/*all=*/true);
}

void OperationWatch::read(bool all) {
  for (std::size_t worker = 0; worker < readers_.size(); ++worker) {
    Reader& reader = readers_[worker];
    const std::uint64_t begun = pages_->begun(worker);
    const std::uint64_t until = all ? begun : std::exchange(reader.settled, begun);
    read_open(worker);
    if (begun > kOperationSlots && reader.seen < begun - kOperationSlots) {
      reader.missed += begun - kOperationSlots - reader.seen;
      reader.seen = begun - kOperationSlots;
    }
    for (; reader.seen < until; ++reader.seen) {
      const auto operation = pages_->read(worker, reader.seen + 1);
      if (!operation) {
        ++reader.missed;
        continue;
      }
      take(worker, *operation);
      if (operation->is_collective()) reader.last_collective = operation->sequence;
      if (operation->is_in_progress()) reader.open.push_back(*operation);
      if (reader.open.size() > kOpenMax) {
        lose_end(worker, std::move(reader.open.front()));
        reader.open.pop_front();
      }
    }
    const std::uint64_t missed = std::exchange(reader.missed, 0);
    if (missed > 0) handlers_.on_missed(plan_.workers[worker], missed);
  }
}

void OperationWatch::read_open(std::size_t worker) {
  std::deque<Operation>& all = readers_[worker].open;
  std::erase_if(all, [&](Operation& open) {
    const auto operation = pages_->read(worker, open.number);
    if (operation && operation->is_in_progress()) return false;
    if (operation) {
      take(worker, *operation);
    } else {
      lose_end(worker, std::move(open));
    }
    return true;
  });
}

void OperationWatch::take(std::size_t worker, const Operation& operation) {
  Operation& last = readers_[worker].last;
  if (operation.number >= last.number) last = operation;
  handlers_.on_operation(plan_.workers[worker], operation);
}

void OperationWatch::lose_end(std::size_t worker, Operation operation) {
  operation.tells_end = false;
  take(worker, operation);
}

std::vector<OperationWatch::LastOperation> OperationWatch::last_operations() {
  std::vector<LastOperation> all(plan_.workers.size());
  if (!pages_) return all;
  read_all();
  for (std::size_t worker = 0; worker < readers_.size(); ++worker) {
    all[worker].begun = pages_->begun(worker);
    all[worker].collective = readers_[worker].last_collective;
    const Operation& last = readers_[worker].last;
    if (last.number == 0) continue;
    std::string& text = all[worker].text;
    text = fmt::format("{} {}", last.is_in_progress() ? "in" : "after", last.op);
    if (last.is_collective()) text += fmt::format(" {}", last.sequence);
  }
  return all;
}

std::vector<LocalRank> OperationWatch::recording() const {
  std::vector<LocalRank> found;
  for (std::size_t worker = 0; pages_ && worker < plan_.workers.size(); ++worker) {
    if (pages_->is_recording(worker)) found.push_back(plan_.workers[worker].local_rank);
  }
  return found;
}

std::uint64_t OperationWatch::begun() const {
  std::uint64_t all = 0;
  for (std::size_t worker = 0; pages_ && worker < plan_.workers.size(); ++worker) {
    all += pages_->begun(worker);
  }
  return all;
}

}  // namespace distrun
