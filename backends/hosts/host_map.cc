#include "backends/hosts/host_map.h"

#include <algorithm>
#include <map>

namespace distrun::hosts {

HostMap::HostMap(const std::vector<std::string>& hosts, int rank) : rank_(rank) {
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const int host = numbers.try_emplace(hosts[i], static_cast<int>(numbers.size())).first->second;
    if (static_cast<std::size_t>(host) == ranks_on_.size()) ranks_on_.emplace_back();
    auto& its = ranks_on_[static_cast<std::size_t>(host)];
    host_of_.push_back(host);
    place_of_.push_back(static_cast<int>(its.size()));
    its.push_back(static_cast<int>(i));
  }
}

std::vector<int> HostMap::leaders() const {
  std::vector<int> all;
  all.reserve(ranks_on_.size());
  for (const auto& ranks : ranks_on_) all.push_back(ranks.front());
  return all;
}

std::size_t HostMap::largest() const {
  std::size_t most = 0;
  for (const auto& ranks : ranks_on_) most = std::max(most, ranks.size());
  return most;
}

}  // namespace distrun::hosts
