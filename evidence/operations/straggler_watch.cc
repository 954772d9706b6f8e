#include "evidence/operations/straggler_watch.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace distrun {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kSteps = 20, kTimesLast = 18;
constexpr std::size_t kManySteps = 40, kManyTimesLast = 36;
constexpr double kShareMin = 0.04;
// In steps of less than a few milliseconds, the order in which the kernel wakes ranks decides.
constexpr nanoseconds kLatenessMin = std::chrono::microseconds(500);
// A rank that waits for a core is late by very different times.
constexpr double kSpreadMax = 1.5;
constexpr std::size_t kWorks = 64;
// A collective counts if the work before it takes this part of the work before longer ones.
constexpr double kWorkMin = 0.25;

// `part`: 0.5 for the median.
template <class Numbers>
auto quantile(const Numbers& numbers, double part) {
  std::vector sorted(numbers.begin(), numbers.end());
  const auto place =
      sorted.begin() + static_cast<std::ptrdiff_t>(static_cast<double>(sorted.size()) * part);
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
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
  const nanoseconds usual = quantile(group.works, 0.9);
  if (work <= nanoseconds(0) ||
      static_cast<double>(work.count()) < kWorkMin * static_cast<double>(usual.count())) {
    return std::nullopt;
  }
  // A rank may have entered before the previous collective ended elsewhere.
  group.steps.push_back({rank, std::min(certain_lateness(*last, *last_but_one), work), work});
  if (group.steps.size() > kManySteps) group.steps.pop_front();
  if (group.reported.contains(rank)) return std::nullopt;
  auto found = straggler_in(group, rank, kSteps, kTimesLast, kSpreadMax);
  if (!found) found = straggler_in(group, rank, kManySteps, kManyTimesLast, std::nullopt);
  if (!found) return std::nullopt;
  group.reported.insert(rank);
  found->group = all.any().group;
  found->number = all.any().sequence;
  return found;
}

std::optional<Straggler> StragglerWatch::straggler_in(const Group& group, int rank,
                                                      std::size_t latest, std::size_t times_min,
                                                      std::optional<double> spread_max) {
  const std::size_t count = std::min(latest, group.steps.size());
  std::vector<double> shares;
  std::vector<nanoseconds> lateness;
  for (auto step = group.steps.end() - static_cast<std::ptrdiff_t>(count);
       step != group.steps.end(); ++step) {
    if (step->last_rank != rank) continue;
    shares.push_back(static_cast<double>(step->lateness.count()) /
                     static_cast<double>(step->work.count()));
    lateness.push_back(step->lateness);
  }
  if (lateness.size() < times_min) return std::nullopt;
  const nanoseconds usual = quantile(lateness, 0.5);
  const double share = quantile(shares, 0.5);
  if (share < kShareMin || usual < kLatenessMin) return std::nullopt;
  const auto ratio = [](nanoseconds large, nanoseconds small) {
    return static_cast<double>(large.count()) /
           static_cast<double>(std::max<std::int64_t>(small.count(), 1));
  };
  if (spread_max && (ratio(usual, quantile(lateness, 0.2)) > *spread_max ||
                     ratio(quantile(lateness, 0.8), usual) > *spread_max)) {
    return std::nullopt;
  }
  return Straggler{.rank = rank,
                   .times_last = static_cast<int>(lateness.size()),
                   .collectives = static_cast<int>(count),
                   .lateness = usual,
                   .share = share};
}

}  // namespace distrun
