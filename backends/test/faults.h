// For tests of faults: the fault of a run, which ranks and test compute from the seed.
#pragma once

#include <chrono>
#include <ostream>
#include <random>

namespace distrun::testing {

// The timeout of the survivors' groups.
constexpr std::chrono::seconds kFaultTimeout{3};

constexpr int kCollectives = 50;

struct FaultPlan {
  enum class Fault { kKill, kStop, kAbort, kSegfault };
  // Before a collective; after the start of one that is not waited for; from another thread, at any
  // later moment.
  enum class Moment { kBefore, kInFlight, kBeside };

  unsigned seed;
  int ranks, victim;
  Fault fault;
  Moment moment;
  int step;  // The collective of the fault.

  // Nine consecutive seeds give every kind of fault with 2, 3 and 4 ranks.
  static FaultPlan of(unsigned seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned count) { return static_cast<int>(random() % count); };
    const int ranks = 2 + static_cast<int>(seed / 3 % 3);
    const Fault crash = draw(2) == 0 ? Fault::kAbort : Fault::kSegfault;
    const Fault faults[] = {Fault::kKill, Fault::kStop, crash};
    return {.seed = seed,
            .ranks = ranks,
            .victim = draw(static_cast<unsigned>(ranks)),
            .fault = faults[seed % 3],
            .moment = static_cast<Moment>(draw(3)),
            .step = 5 + draw(kCollectives - 10)};
  }

  // Whether a surviving rank catches the error, leaves the groups and exits; otherwise the error
  // ends it.
  bool catches(int rank) const { return (seed / 3 + static_cast<unsigned>(rank)) % 2 == 0; }

  friend std::ostream& operator<<(std::ostream& out, const FaultPlan& plan) {
    constexpr const char* kFaults[] = {"is killed", "is stopped", "aborts", "segfaults"};
    constexpr const char* kMoments[] = {"before", "in the midst of", "at some time after"};
    return out << "seed " << plan.seed << ": rank " << plan.victim << " of " << plan.ranks << " "
               << kFaults[static_cast<int>(plan.fault)] << " "
               << kMoments[static_cast<int>(plan.moment)] << " collective " << plan.step;
  }
};

}  // namespace distrun::testing
