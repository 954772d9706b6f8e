// The numbers of a worker, each with its own type, so that a Rank is never compared with a
// LocalRank, a count or a pid.
//
//     Rank rank(3);
//     fmt::format("rank {}", rank.value());
#pragma once

#include <compare>

namespace distrun {

namespace internal {

template <class Tag>
class Index {
 public:
  constexpr explicit Index(int value) : value_(value) {}
  constexpr int value() const { return value_; }
  friend constexpr auto operator<=>(Index, Index) = default;  // NOLINT(modernize-use-nullptr)

 private:
  int value_;
};

}  // namespace internal

// Position among all workers of the run: 0 … world size - 1.
using Rank = internal::Index<struct RankTag>;

// Position among the workers of one node: 0 … local world size - 1.
using LocalRank = internal::Index<struct LocalRankTag>;

}  // namespace distrun
