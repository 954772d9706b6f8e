// Collectives on bytes, and a group of ranks that calls them.
//
//     group->run(timeout, [&](Collectives& collectives, Watch& watch) {
//       collectives.all_reduce(data, count, {Element::kFloat32, Reduction::kSum}, watch);
//     });
//
// Every rank of the group makes the same calls in the same order.
//
// Errors: HostError, and what the Watch throws. After an error, no other call may follow. Thread
// safety: one thread at a time.
#pragma once

#include <cstddef>
#include <span>

#include <c10/util/FunctionRef.h>

#include "backends/shm/host/call_limit.h"
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

  // For each rank. On ranks other than the root of a call, they may be empty.
  using Inputs = std::span<const Const>;
  using Outputs = std::span<std::byte* const>;
  using InputParts = std::span<const ConstPart>;
  using OutputParts = std::span<const Part>;

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

  virtual void all_gather(Const mine, Outputs outputs, std::size_t bytes, Watch& watch) = 0;
  virtual void gather(Const mine, Outputs outputs, std::size_t bytes, int root, Watch& watch) = 0;
  virtual void scatter(Inputs inputs, std::byte* mine, std::size_t bytes, int root,
                       Watch& watch) = 0;
  virtual void reduce_scatter(Inputs inputs, std::byte* mine, std::size_t count,
                              const Reducing& how, Watch& watch) = 0;
  virtual void all_to_all(InputParts inputs, OutputParts outputs, Watch& watch) = 0;
};

class RankGroup {
 public:
  using Clock = CallLimit::Clock;
  using Call = c10::function_ref<void(Collectives&, Watch&)>;

  virtual ~RankGroup() = default;

  // Throws HostError, and what `call` throws. From then on every call fails.
  virtual void run(const CallLimit& limit, Call call) = 0;
  // Ends the call that is running, and all later ones. Any thread.
  virtual void abort() = 0;
  // A tensor in one of its blocks is reduced in place, if that of every other rank is in one, too.
  virtual SharedBlocks& blocks() = 0;
};

}  // namespace distrun::shm
