// For tests: random collectives, equal on every rank with the same seed.
//
//     RandomCollectives collectives(seed, {Group(), new_group({{0, 2}})});
//     for (int i = 0; i < 50; ++i) collectives.next();
//     collectives.wait_for_all();
//
// Kind, root, size, dtype and group are random. A collective is waited for at once or some
// collectives later. Results are not checked.
#pragma once

#include <deque>
#include <random>
#include <vector>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun::testing {

class RandomCollectives {
 public:
  RandomCollectives(unsigned seed, std::vector<Group> groups)
      : random_(seed), groups_(std::move(groups)) {}

  // Runs or starts the next collective, if this rank is in its group.
  void next() { begin_next(/*wait=*/true); }
  // Only starts it, if it can be asynchronous.
  void begin_next() { begin_next(/*wait=*/false); }

  void wait_for_all();

 private:
  void begin_next(bool wait);
  unsigned draw(unsigned count) { return static_cast<unsigned>(random_() % count); }

  std::mt19937 random_;
  const std::vector<Group> groups_;
  std::deque<Work> under_way_;
};

}  // namespace distrun::testing
