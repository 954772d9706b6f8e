// The rows of plain loops over memory that all ranks share from the start: no copy in, no errors,
// no time-outs. A backend can approach their times. See rows.h.
//
//     memory_floor RANKS OPERATIONS SIZES MILLISECONDS BATCHES
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/collectives/rows.h"

namespace distrun::bench {
namespace {

struct alignas(128) Arrival {
  std::atomic<unsigned> count = 0;
};

// Memory of all ranks.
struct Shared {
  double value = 0;
  Arrival arrivals[64];
};

class Rank {
 public:
  // `tensors` has two tensors of `most` floats for each rank.
  Rank(Shared& shared, float* tensors, std::size_t most, int rank, int ranks)
      : shared_(shared), tensors_(tensors), most_(most), me_(rank), ranks_(ranks) {}

  double rank_0s(double value) {
    if (me_ == 0) shared_.value = value;
    barrier();
    const double its = shared_.value;
    barrier();
    return its;
  }

  void barrier() {
    ++times_;
    shared_.arrivals[me_].count.store(times_, std::memory_order_release);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int look = 0; shared_.arrivals[rank].count.load(std::memory_order_acquire) < times_;) {
        if (++look > 1000 || ranks_ > 2) ::sched_yield();
      }
    }
  }

  void call(const std::string& operation, std::size_t count) {
    barrier();
    const std::size_t part = count / static_cast<std::size_t>(ranks_);
    const std::size_t at = part * static_cast<std::size_t>(me_);
    if (operation == "all_reduce") {
      sum(at, part, first(me_) + at);
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank != me_) copy(first(rank) + at, first(me_) + at, part);
      }
      barrier();
    } else if (operation == "reduce_scatter") {
      sum(at, part, second(me_));
    } else if (operation == "broadcast") {
      if (me_ != 0) copy(first(me_), first(0), count);
    } else if (operation == "all_gather") {
      for (int rank = 0; rank < ranks_; ++rank) {
        copy(second(me_) + part * static_cast<std::size_t>(rank), first(rank), part);
      }
    } else if (operation == "all_to_all") {
      for (int rank = 0; rank < ranks_; ++rank) {
        copy(second(me_) + part * static_cast<std::size_t>(rank), first(rank) + at, part);
      }
    }
  }

 private:
  float* first(int rank) const { return tensors_ + most_ * 2 * static_cast<std::size_t>(rank); }
  float* second(int rank) const { return first(rank) + most_; }

  static void copy(float* to, const float* from, std::size_t count) {
    std::memcpy(to, from, count * sizeof(float));
  }

  void sum(std::size_t begin, std::size_t count, float* result) const {
    const float* a = first(0) + begin;
    const float* b = first(ranks_ - 1) + begin;
    for (std::size_t i = 0; i < count; ++i) result[i] = a[i] + b[i];
    for (int rank = 1; rank < ranks_ - 1; ++rank) {
      const float* its = first(rank) + begin;
      for (std::size_t i = 0; i < count; ++i) result[i] += its[i];
    }
  }

  Shared& shared_;
  float* const tensors_;
  const std::size_t most_;
  const int me_, ranks_;
  unsigned times_ = 0;
};

void* shared_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

void run(const Plan& plan, Rank& mine, int rank, int ranks) {
  Measure measure(plan, rank, [&](double value) { return mine.rank_0s(value); });
  for (const std::string& operation : plan.operations) {
    for (const std::size_t bytes : plan.sizes) {
      const std::size_t count = floats_of(bytes, ranks);
      measure.row(operation, bytes, [&] { mine.call(operation, count); });
      if (operation == "barrier") break;
    }
  }
}

}  // namespace
}  // namespace distrun::bench

int main(int /*argc*/, char** argv) {
  using namespace distrun::bench;
  const int ranks = std::atoi(argv[1]);
  const Plan plan = Plan::of(argv + 2);
  const std::size_t most =
      floats_of(*std::max_element(plan.sizes.begin(), plan.sizes.end()), ranks);
  auto* shared = new (shared_memory(sizeof(Shared))) Shared();
  auto* tensors = static_cast<float*>(
      shared_memory(most * 2 * sizeof(float) * static_cast<std::size_t>(ranks)));
  std::vector<pid_t> others;
  int rank = 0;
  for (int one = 1; one < ranks; ++one) {
    const pid_t child = ::fork();
    if (child == 0) {
      rank = one;
      break;
    }
    others.push_back(child);
  }
  Rank mine(*shared, tensors, most, rank, ranks);
  run(plan, mine, rank, ranks);
  if (rank != 0) ::_exit(0);
  int failed = 0;
  for (const pid_t child : others) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) failed = 1;
  }
  return failed;
}
