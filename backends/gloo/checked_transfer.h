// A send and its receive compare dtypes and numbers of elements before the tensor is sent. Each
// side sends the other a header through the backend of checks, so both fail.
//
//     sender                receiver
//       header ──── kSender ───▶
//       ◀─── kReceiver ──── header
//       tensor ────────────────▶      with a tag made of the user's tag, the dtype and the number
//
// Different tensors have different tags and never meet, because Gloo ends a process that receives
// more than its buffer holds. Disagreements keeps such transfers until the group ends: withdrawing
// a message breaks Gloo's connection. Nothing blocks before Work::wait(), so any order of calls
// that works without checks works with them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun::internal {

// Thread safety: any thread may call it.
class Disagreements {
 public:
  enum class Role { kSender, kReceiver };
  using Path = std::tuple<Role, int, int>;  // This rank's role, the peer, the user's tag.

  // The number of disagreements so far. As part of the next tensor's tag, it keeps that tensor
  // apart from abandoned transfers.
  int count(const Path& path);
  void add(const Path& path, c10::intrusive_ptr<c10d::Work> transfer);

 private:
  std::mutex mutex_;
  std::map<Path, int> counts_;
  std::vector<c10::intrusive_ptr<c10d::Work>> transfers_;
};

struct TransferBackends {
  c10d::Backend& transfers;
  c10d::Backend& checks;
  const std::vector<int>& ranks;  // Global ranks, by group rank.
  std::shared_ptr<Disagreements> disagreements;
};

// The works keep both backends alive.
c10::intrusive_ptr<c10d::Work> checked_send(const TransferBackends& backends,
                                            std::vector<at::Tensor>& tensors, int to, int tag);
// Without `from`, receives from any rank, and only in wait().
c10::intrusive_ptr<c10d::Work> checked_receive(const TransferBackends& backends,
                                               std::vector<at::Tensor>& tensors,
                                               std::optional<int> from, int tag);

}  // namespace distrun::internal
