// Why a collective of the ranks of one host failed.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace distrun::shm {

class HostError : public std::runtime_error {
 public:
  enum class Kind {
    kTimedOut,
    kEnded,     // The process of `rank`.
    kLeft,      // `rank` has destroyed or aborted its group.
    kFailed,    // A collective failed on `rank`.
    kMismatch,  // `rank` makes another call.
    kAborted,   // This rank has aborted the group.
  };

  // `rank` is a rank of the group, or -1.
  HostError(Kind kind, int rank, const std::string& text)
      : std::runtime_error(text), kind_(kind), rank_(rank) {}
  // A time-out, with the numbers of the ranks that did not come.
  HostError(std::vector<int> missing, const std::string& text)
      : std::runtime_error(text), kind_(Kind::kTimedOut), missing_(std::move(missing)) {}

  Kind kind() const { return kind_; }
  int rank() const { return rank_; }
  const std::vector<int>& missing() const { return missing_; }

 private:
  Kind kind_;
  int rank_ = -1;
  std::vector<int> missing_;
};

}  // namespace distrun::shm
