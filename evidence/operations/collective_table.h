// CollectiveTable puts the operations of the ranks together: which ranks have entered a collective,
// and which have ended it.
//
//     CollectiveTable table(/*sees_all_ranks=*/true);
//     table.add(rank, operation);                      // when it began, and again when it ended
//     for (const auto& all : table.take_entered()) …   // every rank has entered these
//     for (const auto& all : table.take_ended()) …
//     table.line()
//     // rank 2 has not entered all_reduce, number 8 of group 0 (Float [1024]); ranks 0, 1, 3 wait
//     // in it
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/operations/operation.h"

namespace distrun {

// One collective, as each rank that entered it sees it.
struct CollectiveOfRanks {
  std::map<int, Operation> by_rank;

  const Operation& any() const { return by_rank.begin()->second; }
};

class CollectiveTable {
 public:
  // On other nodes than node 0, only the ranks of this node are seen: a collective then counts as
  // entered when those of them have entered it that have used its group before.
  explicit CollectiveTable(bool sees_all_ranks) : sees_all_ranks_(sees_all_ranks) {}

  // If two ranks claim the same rank in a group, several groups have its name, as those of
  // split_group() in some versions of PyTorch. The table then forgets the name and ignores it.
  void add(int rank, const Operation& operation);

  // Operations of the node are lost: those that are in progress may have ended.
  void lose_ends(int node);

  // For line(): that the table has all operations of the rank, even if there are none; and the
  // ranks of a group. A rank that is known so and has not used the group is missing in it.
  void know_rank(int rank) { known_.insert(rank); }
  void know_members(const std::string& group, std::set<int> ranks);

  // Each is returned once, in the order in which they became complete.
  std::vector<CollectiveOfRanks> take_entered() { return std::exchange(entered_, {}); }
  std::vector<CollectiveOfRanks> take_ended() { return std::exchange(ended_, {}); }

  // Limits of the table's knowledge.
  struct Unknown {
    // Later operations may be missing in the table. A rank in a collective that began later does
    // not count as waiting.
    OperationTime since = OperationTime::max();
    std::set<int> ranks = {};  // These ranks are never called missing.
  };

  // The collectives in which ranks wait, and the ranks that are missing there; empty if no rank is
  // in one.
  std::string line(const Unknown& unknown) const;
  std::string line() const { return line(Unknown()); }

  // Ranks other than one that has failed; all their operations are in the table.
  struct Others {
    std::set<int> finished;  // They have exited with 0.
    // They were stopped because of the failure, perhaps before they came as far. So they count as
    // missing only if most ranks came as far, and the collective has ended on `rank`: with Gloo, it
    // ends when a rank closes its connections.
    std::set<int> stopped;
  };

  // After the end of all ranks: those of `others` that have not entered the last collective of
  // `rank`; empty if there are none.
  // "rank 2 had not entered all_reduce, number 8 of …, which rank 3 had entered".
  std::string missing_in_last_of(int rank, const Others& others) const;

 private:
  using Key = std::pair<std::string, std::uint32_t>;  // Group and sequence.

  struct Pending {
    CollectiveOfRanks ranks;
    bool is_entered = false;
    std::uint64_t added = 0;  // In this order.
  };

  // Whether the operation shows, or an earlier one did, that several groups have the name.
  bool is_ambiguous(int rank, const Operation& operation);
  void forget(const std::string& group);
  std::size_t ranks_expected(const Operation& operation) const;
  // The first of the group in which a rank waits: the others wait for what it waits for. A rank can
  // be in several, such as those that wait for a GPU. Null if no rank is in one.
  const CollectiveOfRanks* first_in_progress(const std::string& group, OperationTime since) const;
  // Ranks that have not used the group at all.
  std::vector<int> absent_from(const std::string& group, int group_size) const;

  bool sees_all_ranks_;
  void forget_old();

  std::map<Key, Pending> pending_;
  std::uint64_t added_ = 0;
  std::set<int> known_;
  std::map<std::string, std::set<int>> given_members_;             // By know_members().
  std::map<std::string, std::map<int, int>> members_;              // Ranks by their group_rank.
  std::set<std::string> ambiguous_;                                // Names of groups.
  std::map<std::string, std::map<int, Operation>> last_in_group_;  // Collectives.
  std::vector<CollectiveOfRanks> entered_, ended_;
};

// "all_reduce, number 8 of group 0 (Float [1024])"
std::string text_of(const Operation& operation);

}  // namespace distrun
