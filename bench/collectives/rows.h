// The rows of collectives_bench.py: each program measures the same operations on the same sizes.
//
//     PROGRAM … OPERATIONS SIZES MILLISECONDS BATCHES        all_reduce,barrier 8,1024 20 5
//
// A row on rank 0's stdout is "OPERATION BYTES MICROSECONDS": the median over the batches of the
// time of one call. A batch takes about that many milliseconds. BYTES are those of the larger
// tensor of a rank: the input of all_reduce, broadcast, reduce_scatter and all_to_all, the output
// of all_gather.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace distrun::bench {

struct Plan {
  std::vector<std::string> operations;
  std::vector<std::size_t> sizes;
  double batch_ms = 20;
  int batches = 5;

  static Plan of(char** arguments) {
    Plan plan;
    std::istringstream operations(arguments[0]), sizes(arguments[1]);
    for (std::string one; std::getline(operations, one, ',');) plan.operations.push_back(one);
    for (std::string one; std::getline(sizes, one, ',');) plan.sizes.push_back(std::stoul(one));
    plan.batch_ms = std::stod(arguments[2]);
    plan.batches = std::atoi(arguments[3]);
    return plan;
  }
};

// Of a tensor: a multiple of four bytes for each rank.
inline std::size_t floats_of(std::size_t bytes, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return std::max(bytes / sizeof(float) / count, std::size_t{1}) * count;
}

class Measure {
 public:
  // `share` returns rank 0's value on all ranks, which go on after rank 0 then.
  Measure(const Plan& plan, int rank, std::function<double(double)> share)
      : plan_(plan), rank_(rank), share_(std::move(share)) {}

  void row(const std::string& operation, std::size_t bytes, const std::function<void()>& call) {
    call();
    call();
    // Too little if the root of a broadcast runs ahead; then a batch takes longer.
    const double once = share_(seconds_of(2, call) / 2);
    const double calls = share_(std::clamp(plan_.batch_ms / 1000 / once, 1.0, 1e6));
    std::vector<double> times;
    for (int batch = 0; batch < plan_.batches; ++batch) {
      times.push_back(seconds_of(static_cast<int>(calls), call) / static_cast<int>(calls));
    }
    std::nth_element(times.begin(), times.begin() + plan_.batches / 2, times.end());
    if (rank_ != 0) return;
    std::printf("%s %zu %.3f\n", operation.c_str(), bytes,
                times[static_cast<std::size_t>(plan_.batches / 2)] * 1e6);
    std::fflush(stdout);
  }

 private:
  double seconds_of(int calls, const std::function<void()>& call) {
    share_(0);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const Plan plan_;
  const int rank_;
  const std::function<double(double)> share_;
};

}  // namespace distrun::bench
