#include "backends/point_to_point.h"

#include <ATen/ops/view_as_real.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/collective_checks.h"
#include "backends/group_state.h"
#include "backends/run_collective.h"

namespace distrun {

namespace {

using internal::CallSite;
using internal::check_tensor;
using internal::group_rank_of;
using internal::is_for_this_rank;
using internal::run_collective;

std::vector<at::Tensor> wire(const at::Tensor& tensor) {
  return {tensor.is_complex() ? at::view_as_real(tensor) : tensor};
}

int peer_of(const CallSite& site, AnyRank rank) {
  const int peer = group_rank_of(site.function, site.group, rank);
  site.check(peer != site.rank(), "the peer is this rank itself; expected another one");
  return peer;
}

Work begin_send(const char* function, const at::Tensor& tensor, AnyRank dst,
                const PointToPointOptions& options, bool async_op) {
  const CallSite site{function, options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  const int peer = peer_of(site, dst);
  check_tensor(site, "tensor", tensor);
  auto tensors = wire(tensor);
  return run_collective(site.function, site.group, async_op,
                        [&] { return site.group->send(tensors, peer, options.tag); });
}

Work begin_receive(const char* function, const at::Tensor& tensor, std::optional<AnyRank> src,
                   const PointToPointOptions& options) {
  const CallSite site{function, options.group};
  if (!is_for_this_rank(site.function, site.group)) return {};
  check_tensor(site, "tensor", tensor);
  auto tensors = wire(tensor);
  const int peer = src ? peer_of(site, *src) : -1;
  return run_collective(site.function, site.group, /*async_op=*/true, [&] {
    return src ? site.group->recv(tensors, peer, options.tag)
               : site.group->recvAnysource(tensors, options.tag);
  });
}

}  // namespace

void send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options) {
  begin_send("send", tensor, dst, options, /*async_op=*/false);
}

int recv(const at::Tensor& tensor, std::optional<AnyRank> src, const PointToPointOptions& options) {
  const Work work = begin_receive("recv", tensor, src, options);
  if (!work) return -1;
  work.wait();
  if (!src) return work.source_rank();
  return get_global_rank(options.group, group_rank_of("recv", options.group, *src));
}

Work isend(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options) {
  return begin_send("isend", tensor, dst, options, /*async_op=*/true);
}

Work irecv(const at::Tensor& tensor, std::optional<AnyRank> src,
           const PointToPointOptions& options) {
  return begin_receive("irecv", tensor, src, options);
}

std::vector<Work> batch_isend_irecv(const std::vector<P2POp>& operations) {
  TORCH_CHECK_VALUE(!operations.empty(), "batch_isend_irecv: there is no operation in the list");
  for (const P2POp& one : operations) {
    TORCH_CHECK_VALUE(one.options.group == operations.front().options.group,
                      "batch_isend_irecv: the operations are of different groups");
  }
  std::vector<Work> begun;
  for (const P2POp& one : operations) {
    Work work = one.kind == P2POp::Kind::kSend ? isend(one.tensor, one.peer, one.options)
                                               : irecv(one.tensor, one.peer, one.options);
    if (work) begun.push_back(std::move(work));
  }
  return begun;
}

}  // namespace distrun
