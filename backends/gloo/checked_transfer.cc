#include "backends/gloo/checked_transfer.h"

#include <string>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "backends/gloo/call_facts.h"

namespace distrun::internal {

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

using Role = Disagreements::Role;

// Tags must not be negative.
int tag_of(const std::string& what) { return static_cast<int>(fingerprint(what) & 0x7fffffff); }

int tag_of_header(Role role, int tag) {
  return tag_of(c10::str(role == Role::kSender ? "sender " : "receiver ", tag));
}

at::Tensor header_of(const at::Tensor& tensor) {
  return at::tensor({static_cast<std::int64_t>(tensor.scalar_type()), tensor.numel()}, at::kLong);
}

int tag_of_tensor(const at::Tensor& tensor, int tag, int disagreements) {
  return tag_of(
      c10::str("tensor ", tag, " ", tensor.scalar_type(), " ", tensor.numel(), " ", disagreements));
}

// "3 elements of Float"
std::string text_of(const at::Tensor& header) {
  const auto* numbers = header.const_data_ptr<std::int64_t>();
  return c10::str(numbers[1], numbers[1] == 1 ? " element of " : " elements of ",
                  static_cast<at::ScalarType>(numbers[0]));
}

class CheckedTransfer : public c10d::Work {
 public:
  CheckedTransfer(const TransferBackends& backends, Role role, Tensors tensors,
                  std::optional<int> peer, int tag)
      : Work(-1, role == Role::kSender ? c10d::OpType::SEND
                 : peer                ? c10d::OpType::RECV
                                       : c10d::OpType::RECVANYSOURCE),
        transfers_(
            c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(&backends.transfers)),
        checks_(c10::intrusive_ptr<c10d::Backend>::unsafe_reclaim_from_nonowning(&backends.checks)),
        ranks_(backends.ranks),
        disagreements_(backends.disagreements),
        role_(role),
        tensors_(std::move(tensors)),
        tag_(tag),
        headers_{header_of(tensors_.at(0))},
        peers_headers_{at::empty_like(headers_[0])} {
    const int its_tag = tag_of_header(role == Role::kSender ? Role::kReceiver : Role::kSender, tag);
    peers_header_ = peer ? checks_->recv(peers_headers_, *peer, its_tag)
                         : checks_->recvAnysource(peers_headers_, its_tag);
    if (peer) begin_with(*peer);
  }

  int sourceRank() const override { return *peer_; }

  bool wait(Milliseconds timeout) override {
    peers_header_->wait(timeout);
    if (!peer_) begin_with(peers_header_->sourceRank());
    header_->wait(timeout);
    check();
    const bool done = transfer_->wait(timeout);
    finish();
    return done;
  }

  void abort() override {
    checks_->abort();
    transfers_->abort();
  }

 private:
  void begin_with(int peer) {
    peer_ = peer;
    header_ = checks_->send(headers_, peer, tag_of_header(role_, tag_));
    const int tag = tag_of_tensor(tensors_[0], tag_, disagreements_->count({role_, *peer_, tag_}));
    transfer_ = role_ == Role::kSender ? transfers_->send(tensors_, peer, tag)
                                       : transfers_->recv(tensors_, peer, tag);
  }

  void check() const {
    if (headers_[0].equal(peers_headers_[0])) return;
    disagreements_->add({role_, *peer_, tag_}, transfer_);
    const int peer = ranks_.at(static_cast<std::size_t>(*peer_));
    const bool sends = role_ == Role::kSender;
    TORCH_CHECK(false, "ranks disagree: ", sends ? "this rank sends " : "this rank expects ",
                text_of(headers_[0]), ", and rank ", peer, sends ? " expects " : " sends ",
                text_of(peers_headers_[0]));
  }

  const c10::intrusive_ptr<c10d::Backend> transfers_, checks_;
  const std::vector<int> ranks_;
  const std::shared_ptr<Disagreements> disagreements_;
  const Role role_;
  Tensors tensors_;
  const int tag_;
  Tensors headers_, peers_headers_;
  std::optional<int> peer_;  // Empty until a receive from any rank has found its sender.
  WorkPtr peers_header_, header_, transfer_;
};

}  // namespace

int Disagreements::count(const Path& path) {
  const std::lock_guard lock(mutex_);
  return counts_[path];
}

void Disagreements::add(const Path& path, WorkPtr transfer) {
  const std::lock_guard lock(mutex_);
  ++counts_[path];
  transfers_.push_back(std::move(transfer));
}

WorkPtr checked_send(const TransferBackends& backends, Tensors& tensors, int to, int tag) {
  return c10::make_intrusive<CheckedTransfer>(backends, Role::kSender, tensors, to, tag);
}

WorkPtr checked_receive(const TransferBackends& backends, Tensors& tensors, std::optional<int> from,
                        int tag) {
  return c10::make_intrusive<CheckedTransfer>(backends, Role::kReceiver, tensors, from, tag);
}

}  // namespace distrun::internal
