// StragglerWatch finds ranks that come late to collectives, again and again, and so hold up the
// others.
//
//     StragglerWatch watch;
//     for (const auto& all : table.take_entered()) {
//       if (const auto found = watch.add(all)) report(*found);
//     }
//
// What counts is the last of the ranks to enter a collective, and how much later than the last but
// one it comes: that time would be saved if it were as fast.  Collectives that follow another one
// at once say nothing about the work of ranks and are left out.  A rank is a straggler if it is the
// last in 18 of 20 collectives and always late by a similar time, or in 36 of 40 collectives. In
// the median, it must be later by at least 4 % of the time between them and by half a millisecond.
// Between ranks of different nodes, lateness that the error of their clocks may explain does not
// count.
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "evidence/operations/collective_table.h"

namespace distrun {

struct Straggler {
  int rank = 0;
  int times_last = 0, collectives = 0;   // It was the last in so many of so many.
  std::chrono::nanoseconds lateness{0};  // In the median.
  double share = 0;                      // Of the time between collectives.
  std::string group;
  std::uint32_t number = 0;  // Of the collective in the group with which it became one.
};

// "rank 3 delays the others: it entered 20 of 20 collectives last, 2.1 ms late (10 % of each
// step)"
std::string text_of(const Straggler& straggler);

class StragglerWatch {
 public:
  // Returns a rank that has become a straggler: once for each group.
  std::optional<Straggler> add(const CollectiveOfRanks& all);

 private:
  struct Step {
    int last_rank = 0;
    std::chrono::nanoseconds lateness{0}, work{0};
  };

  struct Group {
    OperationTime previous_end;  // When the last rank had entered or ended the one before.
    bool has_previous = false;
    std::deque<std::chrono::nanoseconds> works;  // Of recent collectives.
    std::deque<Step> steps;                      // The last ones that count.
    std::set<int> reported;
  };

  // Whether the rank was the last in `times_min` of the latest steps. `spread_max`: how much most
  // of its delays may differ from the median, as a factor.
  static std::optional<Straggler> straggler_in(const Group& group, int rank, std::size_t latest,
                                               std::size_t times_min,
                                               std::optional<double> spread_max);

  std::map<std::string, Group> groups_;
};

}  // namespace distrun
