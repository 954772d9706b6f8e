// The worker of measurements that need more than /bin/true.
//
//     bench_worker hold FOLDER    reports that it runs, and exits on the start signal
//     bench_worker fail FOLDER    the same, but rank 0 fails; the others wait to be killed
//
// FOLDER contains two FIFOs: a running worker writes a byte to `ready`; the end of `go` is the
// start signal. The failing rank writes the time to FOLDER/failed_at, in nanoseconds of
// CLOCK_MONOTONIC.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace {

// distrun and torchrun set RANK, MPICH sets PMI_RANK.
bool is_rank_0() {
  const char* rank = std::getenv("RANK");
  if (rank == nullptr) rank = std::getenv("PMI_RANK");
  return rank != nullptr && std::string_view(rank) == "0";
}

void wait_for_the_end_of(int fd) {
  char nothing;
  while (::read(fd, &nothing, 1) > 0) {
  }
}

void write_time(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::fprintf(file, "%lld\n", now.tv_sec * 1'000'000'000LL + now.tv_nsec);
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view mode = argv[1];
  const std::string folder = argv[2];
  // `go` first: once all are ready, its other end may close, and open() would block.
  const int go = ::open((folder + "/go").c_str(), O_RDONLY);
  const int ready = ::open((folder + "/ready").c_str(), O_WRONLY);
  if (::write(ready, "", 1) != 1) return 1;
  if (mode == "fail" && !is_rank_0()) {
    for (;;) ::pause();
  }
  wait_for_the_end_of(go);
  if (mode == "hold") return 0;
  write_time(folder + "/failed_at");
  ::_exit(3);
}
