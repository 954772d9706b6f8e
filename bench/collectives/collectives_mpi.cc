// The rows of an MPI's collectives. See rows.h.
//
//     mpiexec -n 2 collectives_mpi OPERATIONS SIZES MILLISECONDS BATCHES
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include "bench/collectives/rows.h"

namespace distrun::bench {
namespace {

double rank_0s(double value) {
  MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  return value;
}

struct Tensors {
  std::vector<float> all, other, part;
};

std::function<void()> call_of(const std::string& operation, Tensors& its) {
  const int count = static_cast<int>(its.all.size()), part = static_cast<int>(its.part.size());
  if (operation == "all_reduce") {
    return [=, &its] {
      MPI_Allreduce(MPI_IN_PLACE, its.all.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
  }
  if (operation == "broadcast") {
    return [=, &its] { MPI_Bcast(its.all.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD); };
  }
  if (operation == "all_gather") {
    return [=, &its] {
      MPI_Allgather(its.part.data(), part, MPI_FLOAT, its.all.data(), part, MPI_FLOAT,
                    MPI_COMM_WORLD);
    };
  }
  if (operation == "reduce_scatter") {
    return [=, &its] {
      MPI_Reduce_scatter_block(its.all.data(), its.part.data(), part, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    };
  }
  if (operation == "all_to_all") {
    return [=, &its] {
      MPI_Alltoall(its.all.data(), part, MPI_FLOAT, its.other.data(), part, MPI_FLOAT,
                   MPI_COMM_WORLD);
    };
  }
  return [] { MPI_Barrier(MPI_COMM_WORLD); };
}

void run(char** arguments) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Plan plan = Plan::of(arguments);
  Measure measure(plan, rank, rank_0s);
  for (const std::string& operation : plan.operations) {
    for (const std::size_t bytes : plan.sizes) {
      const std::size_t count = floats_of(bytes, ranks);
      Tensors tensors{std::vector<float>(count), std::vector<float>(count),
                      std::vector<float>(count / static_cast<std::size_t>(ranks))};
      measure.row(operation, bytes, call_of(operation, tensors));
      if (operation == "barrier") break;
    }
  }
}

}  // namespace
}  // namespace distrun::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  distrun::bench::run(argv + 1);
  MPI_Finalize();
  return 0;
}
