// For tests: the ranks of a group as threads of this process.
//
//     const auto errors = run_as_ranks(3, [](HostGroup& group, int rank) { … });
//     EXPECT_THAT(errors, Each(""));
//
// Each rank leaves the group when its function returns or throws.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "backends/shm/host/host_group.h"
#include "backends/shm/host/host_meeting.h"

namespace distrun::shm {

inline std::chrono::steady_clock::time_point in_time() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// The error of each rank, or "". A rank that cannot join has an error, too.
inline std::vector<std::string> run_as_ranks(int ranks,
                                             const std::function<void(HostGroup&, int)>& act) {
  std::vector<HostMeeting> meetings;
  std::vector<std::string> cards;
  for (int rank = 0; rank < ranks; ++rank) {
    meetings.push_back(HostMeeting::open(rank, ranks).value());
    cards.push_back(meetings.back().card());
  }
  std::vector<int> names(static_cast<std::size_t>(ranks));
  std::iota(names.begin(), names.end(), 0);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      try {
        auto group = HostGroup::join(meetings[at], rank, names, cards, in_time());
        if (!group) {
          errors[at] = group.error().message;
          return;
        }
        act(**group, rank);
      } catch (const std::exception& error) {
        errors[at] = error.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return errors;
}

}  // namespace distrun::shm
