// Which rank of a group is on which host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace distrun::hosts {

class HostMap {
 public:
  // `hosts` are those of the ranks; equal texts are one host. `rank` is this rank.
  HostMap(const std::vector<std::string>& hosts, int rank);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(host_of_.size()); }
  // Hosts are numbered in the order of their first ranks.
  int hosts() const { return static_cast<int>(ranks_on_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int my_host() const { return host_of(rank_); }
  // In ascending order. The first is the leader.
  const std::vector<int>& ranks_on(int host) const {
    return ranks_on_[static_cast<std::size_t>(host)];
  }
  // The rank's number among the ranks on its host.
  int place_of(int rank) const { return place_of_[static_cast<std::size_t>(rank)]; }
  bool is_leader() const { return place_of(rank_) == 0; }
  // By host.
  std::vector<int> leaders() const;
  // The most ranks that a host has.
  std::size_t largest() const;

 private:
  const int rank_;
  std::vector<int> host_of_;
  std::vector<int> place_of_;
  std::vector<std::vector<int>> ranks_on_;
};

}  // namespace distrun::hosts
