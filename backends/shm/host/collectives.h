// Collectives on bytes, and a group of ranks that calls them.
//
//     group->run(deadline, [&](Collectives& collectives, Watch& watch) {
//       collectives.all_reduce(data, count, {Element::kFloat32, Reduction::kSum}, watch);
//     });
//
// Every rank of the group makes the same calls in the same order.
//
// Errors: HostError, and what the Watch throws. After an error, no other call may follow. Thread
// safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "backends/shm/host/phases.h"
#include "backends/shm/host/reduction.h"

namespace distrun::shm {

class SharedBlocks;

class Collectives {
 public:
  using Const = const std::byte*;

  struct Part {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  struct ConstPart {
    Const data = nullptr;
    std::size_t bytes = 0;
  };

  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  virtual void barrier(Watch& watch) = 0;
  virtual void broadcast(std::byte* data, std::size_t bytes, int root, Watch& watch) = 0;
  virtual void all_reduce(std::byte* data, std::size_t count, const Reducing& how,
                          Watch& watch) = 0;
  // Writes only the root's data.
  virtual void reduce(std::byte* data, std::size_t count, const Reducing& how, int root,
                      Watch& watch) = 0;

  // Lists have an element for each rank. On ranks other than the root, they may be empty.
  virtual void all_gather(Const mine, const std::vector<std::byte*>& outputs, std::size_t bytes,
                          Watch& watch) = 0;
  virtual void gather(Const mine, const std::vector<std::byte*>& outputs, std::size_t bytes,
                      int root, Watch& watch) = 0;
  virtual void scatter(const std::vector<Const>& inputs, std::byte* mine, std::size_t bytes,
                       int root, Watch& watch) = 0;
  virtual void reduce_scatter(const std::vector<Const>& inputs, std::byte* mine, std::size_t count,
                              const Reducing& how, Watch& watch) = 0;
  virtual void all_to_all(const std::vector<ConstPart>& inputs, const std::vector<Part>& outputs,
                          Watch& watch) = 0;
};

class RankGroup {
 public:
  using Clock = std::chrono::steady_clock;
  using Call = std::function<void(Collectives&, Watch&)>;

  virtual ~RankGroup() = default;

  // Throws HostError, and what `call` throws. From then on every call fails.
  virtual void run(Clock::time_point deadline, const Call& call) = 0;
  // Ends the call that is running, and all later ones. Any thread.
  virtual void abort() = 0;
  // A tensor in one of its blocks is reduced in place, if that of every other rank is in one, too.
  virtual SharedBlocks& blocks() = 0;
};

}  // namespace distrun::shm
