#include "evidence/operations/collective_check.h"

namespace distrun {

void CollectiveCheck::begin() {
  table_ = CollectiveTable(options_.sees_all_ranks);
  stragglers_ = {};
  different_groups_.clear();
  groups_of_unlike_calls_.clear();
  compared_ = missed_ = 0;
  recorded_.reset();
  if (options_.recorded != nullptr) recorded_ = *options_.recorded;
  groups_unlike_recording_.clear();
}

void CollectiveCheck::judge() {
  const auto entered = table_.take_entered();
  const auto ended = table_.take_ended();
  if (!options_.sees_all_ranks) return;
  for (const CollectiveOfRanks& all : entered) {
    const auto found = stragglers_.add(all);
    if (found && handlers_.on_straggler) handlers_.on_straggler(*found);
    const auto unlike = call_difference_in(all);
    const bool is_first = unlike && groups_of_unlike_calls_.insert(all.any().group).second;
    if (is_first && handlers_.on_unlike_calls) handlers_.on_unlike_calls(*unlike);
  }
  for (const CollectiveOfRanks& all : ended) {
    if (handlers_.on_ended) handlers_.on_ended(all);
    compare_with_recording(all);
    if (all.by_rank.size() > 1 && can_be_compared(all)) ++compared_;
    const auto found = difference_in(all);
    const bool is_first = found && different_groups_.insert(found->operation.group).second;
    if (is_first && handlers_.on_difference) handlers_.on_difference(*found);
  }
}

void CollectiveCheck::compare_with_recording(const CollectiveOfRanks& all) {
  if (!recorded_) return;
  const auto found = recorded_->compare(all);
  const bool is_first = found && groups_unlike_recording_.insert(found->operation.group).second;
  if (is_first && handlers_.on_record_difference) handlers_.on_record_difference(*found);
}

void CollectiveCheck::end() {
  judge();
  if (!options_.sees_all_ranks) return;
  if (options_.digests && handlers_.on_compared) handlers_.on_compared(compared_, missed_);
  if (recorded_ && handlers_.on_record_compared) {
    handlers_.on_record_compared(*recorded_, groups_unlike_recording_.empty());
  }
}

}  // namespace distrun
