// What passes between the hosts of a group: bytes through Gloo, and the news of a failure through
// the store.
//
// One rank of each host, its leader, takes part in the leaders' collectives. All ranks take part in
// the others, which leaders would not make faster.
//
// A rank on which a call fails publishes the reason in the store and closes its connections. Ranks
// that wait, for Gloo or for a rank of their host, look for such a reason, and fail with it.
//
// Errors: shm::HostError. Thread safety: one thread at a time, but any may call abort().
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/shm/host/collectives.h"

namespace distrun::hosts {

// How long a rank that has lost a connection, or whose time is over, waits for the reason: ranks
// notice within 0.1 s that another of their host has ended. A rank that knows who is at fault does
// not wait: others wait for it.
inline constexpr std::chrono::milliseconds kReasonTime{700};
// How much longer than a leader the other ranks of its host wait, so that the leader reports first.
inline constexpr std::chrono::milliseconds kLeadersTime{1000};
static_assert(kReasonTime < kLeadersTime);

// In errors, after the rank to which the connection was lost.
inline constexpr const char* kWasLost = " was lost: ";

// The text of an error, without the backtrace of a c10::Error.
std::string text_of(const std::exception& error);

// What c10d does not have for the connections of a Gloo backend.
struct GlooConnections {
  // Closes those to all ranks, which ends running and later calls with an error. Any thread may
  // call it.
  std::function<void(c10d::Backend&)> close;
  // The rank whose lost connection an error reports, if any. The backend has just thrown it.
  std::function<std::optional<int>(c10d::Backend&, const std::string&)> lost_peer;
};

class BetweenHosts {
 public:
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

  struct Parts {
    BackendPtr all;      // Gloo, of all ranks.
    BackendPtr leaders;  // Gloo, of the leaders; null on other ranks.
    std::vector<int> names_of_leaders;
    std::vector<int> names;  // The numbers of the ranks in messages.
    c10::intrusive_ptr<c10d::Store> store;
    std::string failure_key;  // Only for this group.
    GlooConnections connections;
  };
  explicit BetweenHosts(Parts parts) : its_(std::move(parts)) {}

  struct Limit {
    std::chrono::steady_clock::time_point deadline;
    shm::Watch& watch;  // Is asked whether a call of another rank of this host has failed.
  };

  // Of the leaders, in the order of the hosts. `ranks` is what an average divides by.
  void all_reduce(std::byte* data, std::size_t count, const shm::Reducing& how, int ranks,
                  const Limit& limit);
  void broadcast(std::byte* data, std::size_t bytes, int host, const Limit& limit);
  // `all` has `bytes` bytes for each host.
  void all_gather(std::byte* mine, std::size_t bytes, std::byte* all, const Limit& limit);
  void barrier(const Limit& limit);

  // Of all ranks.
  void gather(const std::byte* mine, shm::Collectives::Outputs outputs, std::size_t bytes, int root,
              const Limit& limit);
  void scatter(shm::Collectives::Inputs inputs, std::byte* mine, std::size_t bytes, int root,
               const Limit& limit);
  void all_to_all(shm::Collectives::InputParts inputs, shm::Collectives::OutputParts outputs,
                  const Limit& limit);
  void monitored_barrier(std::chrono::milliseconds timeout, bool wait_all_ranks);

  bool is_leader() const { return its_.leaders.defined(); }
  // Gloo of all ranks.
  c10d::Backend& all() { return *its_.all; }

  // Publishes that a call failed on this rank, and why. Only the first time.
  void publish_failure(const std::string& reason);
  // For ranks that wait. Throws the reason that another rank has published, if the wait goes on for
  // some time after it; asks the store only now and then.
  void look_for_news();
  // Throws the reason that another rank publishes within kReasonTime, if one does.
  void wait_for_news();
  void abort();

 private:
  // `error` is what a collective of `backend` threw. `names` are those of its ranks.
  [[noreturn]] void throw_reason_or(const std::exception& error, c10d::Backend& backend,
                                    const std::vector<int>& names);
  // Runs a collective of Gloo.
  template <class Act>
  void run(c10d::Backend& backend, const std::vector<int>& names, const Limit& limit,
           const Act& act);
  template <class Act>
  void run_on_leaders(const Limit& limit, const Act& act) {
    run(*its_.leaders, its_.names_of_leaders, limit, act);
  }
  template <class Act>
  void run_on_all(const Limit& limit, const Act& act) {
    run(*its_.all, its_.names, limit, act);
  }
  // The reason that another rank publishes in this time, or an empty text.
  std::string ask_for_news(std::chrono::milliseconds time);
  void check_aborted() const;
  void close_connections();

  const Parts its_;
  std::chrono::steady_clock::time_point next_look_;
  std::string news_;
  bool is_store_silent_ = false;
  std::atomic<bool> has_published_ = false;
  std::atomic<bool> is_aborted_ = false;
};

// Looks for news of other hosts while ranks of this host wait for each other.
class NewsWatch : public shm::ForwardingWatch {
 public:
  NewsWatch(shm::Watch& of_host, BetweenHosts& between)
      : ForwardingWatch(of_host), between_(between) {}

  void check(int rank) override;

 private:
  BetweenHosts& between_;
};

}  // namespace distrun::hosts
