// A send and its receive that compare dtypes and numbers of elements before the tensor is sent.
// Each sends the other a header by the backend of checks; both compare, so both fail.
//
//     sender                receiver
//       header ──── kSender ───▶
//       ◀─── kReceiver ──── header
//       tensor ────────────────▶      with a tag made of the user's, the dtype and the number
//
// Tensors that differ have different tags and never meet: Gloo ends a process that receives more
// than its buffer takes.  They stay under way until the group ends, for Gloo cannot use a
// connection any more from which a message is withdrawn; Disagreements has them.  Nothing here
// waits before Work::wait(), so the order of calls that a program needs without checks works with
// them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun::internal {

// Threads: any.
class Disagreements {
 public:
  enum class Role { kSender, kReceiver };
  using Path = std::tuple<Role, int, int>;  // This rank's role, the peer, the user's tag.

  // How many there were.  The next tensor must not meet what they left under way.
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
  const std::vector<int>& ranks;  // Global ones, by group rank.
  std::shared_ptr<Disagreements> disagreements;
};

// The works hold what they use of both backends, which outlive them.
c10::intrusive_ptr<c10d::Work> checked_send(const TransferBackends& backends,
                                            std::vector<at::Tensor>& tensors, int to, int tag);
// Without `from`: from any rank.  The tensor is received when that work is waited for.
c10::intrusive_ptr<c10d::Work> checked_receive(const TransferBackends& backends,
                                               std::vector<at::Tensor>& tensors,
                                               std::optional<int> from, int tag);

}  // namespace distrun::internal
