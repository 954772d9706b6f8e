#include "evidence/operations/straggler_watch.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace distrun {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kSteps = 20;
constexpr std::size_t kTimesLast = 18;
constexpr double kShareMin = 0.04;
// In steps of less than a few milliseconds, the order in which the kernel wakes ranks decides.
constexpr nanoseconds kLatenessMin = std::chrono::microseconds(500);
// A straggler that was the last less often than this is none any more.
constexpr std::size_t kTimesLastAgain = 12;
constexpr std::size_t kWorks = 64;
// A collective counts if the work before it takes this part of the work before longer ones.
constexpr double kWorkMin = 0.25;

nanoseconds ninth_tenth(const std::deque<nanoseconds>& works) {
  std::vector<nanoseconds> sorted(works.begin(), works.end());
  const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 9 / 10);
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
}

template <class Number>
Number median(std::vector<Number> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// How much later `one` began than `other`, at least.
nanoseconds certain_lateness(const Operation& one, const Operation& other) {
  const nanoseconds difference = one.began - other.began;
  if (one.node == other.node) return difference;
  return std::max(difference - one.clock_error - other.clock_error, nanoseconds(0));
}

}  // namespace

std::string text_of(const Straggler& straggler) {
  const double milliseconds = std::chrono::duration<double, std::milli>(straggler.lateness).count();
  return fmt::format(
      "rank {} delays the others: it entered {} of {} collectives last, {:.{}f} ms late "
      "({:.0f} % of each step)",
      straggler.rank, straggler.times_last, straggler.collectives, milliseconds,
      milliseconds < 10 ? 1 : 0, straggler.share * 100);
}

std::optional<Straggler> StragglerWatch::add(const CollectiveOfRanks& all) {
  if (all.by_rank.size() < 2) return std::nullopt;
  Group& group = groups_[all.any().group];
  int rank = all.by_rank.begin()->first;
  const Operation* last = &all.any();
  const Operation* last_but_one = nullptr;
  OperationTime end = OperationTime::min();
  for (const auto& [each, operation] : all.by_rank) {
    end = std::max(end, operation.ended.value_or(operation.began));
    if (each == all.by_rank.begin()->first) continue;
    if (operation.began > last->began) {
      last_but_one = std::exchange(last, &operation);
      rank = each;
    } else if (last_but_one == nullptr || operation.began > last_but_one->began) {
      last_but_one = &operation;
    }
  }
  const OperationTime previous_end = std::exchange(group.previous_end, end);
  if (!std::exchange(group.has_previous, true)) return std::nullopt;

  const nanoseconds work = last->began - previous_end;
  group.works.push_back(std::max(work, nanoseconds(0)));
  if (group.works.size() > kWorks) group.works.pop_front();
  const nanoseconds usual = ninth_tenth(group.works);
  if (work <= nanoseconds(0) ||
      static_cast<double>(work.count()) < kWorkMin * static_cast<double>(usual.count())) {
    return std::nullopt;
  }
  // A rank may have entered before the previous collective ended elsewhere.
  group.steps.push_back({rank, std::min(certain_lateness(*last, *last_but_one), work), work});
  if (group.steps.size() > kSteps) group.steps.pop_front();

  const auto times_last = [&](int which) {
    return static_cast<std::size_t>(
        std::count_if(group.steps.begin(), group.steps.end(),
                      [&](const Step& step) { return step.last_rank == which; }));
  };
  if (group.straggler && times_last(*group.straggler) < kTimesLastAgain) group.straggler.reset();
  const std::size_t times = times_last(rank);
  if (group.straggler == rank || times < kTimesLast) return std::nullopt;
  std::vector<double> shares;
  std::vector<nanoseconds> lateness;
  for (const Step& step : group.steps) {
    if (step.last_rank != rank) continue;
    shares.push_back(static_cast<double>(step.lateness.count()) /
                     static_cast<double>(step.work.count()));
    lateness.push_back(step.lateness);
  }
  const double share = median(shares);
  if (share < kShareMin || median(lateness) < kLatenessMin) return std::nullopt;
  group.straggler = rank;
  return Straggler{.rank = rank,
                   .times_last = static_cast<int>(times),
                   .collectives = static_cast<int>(group.steps.size()),
                   .lateness = median(lateness),
                   .share = share,
                   .group = all.any().group,
                   .number = all.any().sequence};
}

}  // namespace distrun
