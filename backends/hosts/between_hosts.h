// What passes between the hosts of a group: bytes through Gloo, and the news of a failure through
// the store.
//
// Of each host, one rank, the leader, takes part in the leaders' collectives. Those of all ranks
// are for what leaders would not make faster.
//
// A failure closes the leaders' connections, so that those of other hosts learn it; the store tells
// them the reason.
//
// Errors: shm::HostError. Thread safety: one thread at a time, but any may call abort().
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/shm/host/collectives.h"

namespace distrun::hosts {

// How much longer than a leader the others of its host wait: after a time-out the leader still has
// to learn the reason, and until then nobody may report the leader.
inline constexpr std::chrono::milliseconds kLeadersTime{1000};

// In errors, after the rank to which the connection was lost.
inline constexpr const char* kWasLost = " was lost: ";

class BetweenHosts {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

  struct Parts {
    BackendPtr all;      // Gloo, of all ranks.
    BackendPtr leaders;  // Gloo, of the leaders; null on other ranks.
    std::vector<int> names_of_leaders;
    std::vector<int> names;  // The numbers of the ranks in messages.
    c10::intrusive_ptr<c10d::Store> store;
    std::string failure_key;  // Nothing else sets it.
    // False if each other host has one rank, which cannot report itself.
    bool can_learn_reasons = true;
  };
  explicit BetweenHosts(Parts parts) : its_(std::move(parts)) {}

  // Of the leaders, in the order of the hosts. `ranks` is what an average divides by.
  void all_reduce(std::byte* data, std::size_t count, const shm::Reducing& how, int ranks,
                  Deadline deadline);
  void broadcast(std::byte* data, std::size_t bytes, int host, Deadline deadline);
  // `all` has `bytes` bytes for each host.
  void all_gather(std::byte* mine, std::size_t bytes, std::byte* all, Deadline deadline);
  void barrier(Deadline deadline);

  // Of all ranks.
  void gather(const std::byte* mine, const std::vector<std::byte*>& outputs, std::size_t bytes,
              int root, Deadline deadline);
  void scatter(const std::vector<const std::byte*>& inputs, std::byte* mine, std::size_t bytes,
               int root, Deadline deadline);
  void all_to_all(const std::vector<shm::Collectives::ConstPart>& inputs,
                  const std::vector<shm::Collectives::Part>& outputs, Deadline deadline);

  // Gloo of all ranks.
  c10d::Backend& all() { return *its_.all; }

  // A call failed on this rank: the other hosts learn it.
  void fail(const std::string& reason) noexcept;
  void abort();

 private:
  // Throws the reason that another rank gave, or else `error` of a collective of Gloo.
  [[noreturn]] void rethrow(const std::exception& error, c10d::Backend& backend,
                            const std::vector<int>& names);
  // The first reason that a rank gave; empty if none gives one in time.
  std::string reason_of_failure(std::chrono::milliseconds time) const;
  template <class Act>
  void on_leaders(const Act& act);
  template <class Act>
  void on_all(const Act& act);

  Parts its_;
};

}  // namespace distrun::hosts
