#include "distrun/point_to_point.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/collective_checks.h"
#include "backends/group/group_state.h"
#include "backends/group/run_collective.h"

namespace distrun {

namespace {

using internal::CallSite;
using internal::Contiguous;
using internal::group_rank_of;
using internal::is_for_this_rank;
using internal::peer_of;
using internal::run_collective;
using Kind = P2POp::Kind;

constexpr int kAny = -1;

void check(const CallSite& site, const at::Tensor& tensor, int tag) {
  check_movable(site, "tensor", tensor);
  check_device(site, "tensor", tensor);
  check_tag(site, tag);
}

Work begin_send(const CallSite& caller, const at::Tensor& tensor, int peer, int tag,
                bool async_op) {
  const CallSite site{caller.function, caller.group, peer};
  std::vector<at::Tensor> tensors = {Contiguous::input(tensor)};
  return run_collective(site, async_op, Contiguous(site),
                        [&] { return site.group->send(tensors, peer, tag); });
}

Work begin_receive(const CallSite& caller, const at::Tensor& tensor, int peer, int tag) {
  CallSite site{caller.function, caller.group};
  if (peer != kAny) site.peer = peer;
  Contiguous contiguous(site);
  std::vector<at::Tensor> tensors = {contiguous.output("tensor", tensor)};
  return run_collective(site, /*async_op=*/true, contiguous, [&] {
    return peer == kAny ? site.group->recvAnysource(tensors, tag)
                        : site.group->recv(tensors, peer, tag);
  });
}

Work send_from(const char* function, const at::Tensor& tensor, AnyRank dst,
               const PointToPointOptions& options, bool async_op) {
  const CallSite site{function, options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int peer = peer_of(site, dst);
  check(site, tensor, options.tag);
  return begin_send(site, tensor, peer, options.tag, async_op);
}

Work receive_from(const char* function, const at::Tensor& tensor, std::optional<AnyRank> src,
                  const PointToPointOptions& options) {
  const CallSite site{function, options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  check(site, tensor, options.tag);
  check_has_peer(site);
  return begin_receive(site, tensor, src ? peer_of(site, *src) : kAny, options.tag);
}

}  // namespace

void send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options) {
  send_from("send", tensor, dst, options, /*async_op=*/false);
}

int recv(const at::Tensor& tensor, std::optional<AnyRank> src, const PointToPointOptions& options) {
  const Work work = receive_from("recv", tensor, src, options);
  if (!work) return -1;
  work.wait();
  if (!src) return work.source_rank();
  return get_global_rank(options.group, group_rank_of("recv", options.group, *src));
}

Work isend(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options) {
  return send_from("isend", tensor, dst, options, /*async_op=*/true);
}

Work irecv(const at::Tensor& tensor, std::optional<AnyRank> src,
           const PointToPointOptions& options) {
  return receive_from("irecv", tensor, src, options);
}

std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& operations) {
  TORCH_CHECK_VALUE(!operations.empty(), "batch_isend_irecv: the list of operations is empty");
  for (const P2POp& one : operations) {
    TORCH_CHECK_VALUE(one.options.group == operations.front().options.group,
                      "batch_isend_irecv: all operations must be in the same group");
  }
  const CallSite site{"batch_isend_irecv", operations.front().options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  // Checks all operations first: if only some started, peers would wait for the rest.
  std::vector<int> peers;
  for (const P2POp& one : operations) {
    peers.push_back(peer_of(site, one.peer));
    check(site, one.tensor, one.options.tag);
    if (one.kind == Kind::kReceive) Contiguous(site).output("tensor", one.tensor);
  }
  std::vector<Work> begun;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto& [kind, tensor, peer, options] = operations[i];
    begun.push_back(kind == Kind::kSend
                        ? begin_send(site, tensor, peers[i], options.tag, /*async_op=*/true)
                        : begin_receive(site, tensor, peers[i], options.tag));
  }
  return begun;
}

}  // namespace distrun
