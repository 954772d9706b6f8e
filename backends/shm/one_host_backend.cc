#include "backends/shm/one_host_backend.h"

#include <c10/util/Exception.h>

#include "backends/shm/ended_tensors.h"
#include "backends/shm/message_work.h"
#include "backends/shm/shm.h"
#include "backends/shm/shm_errors.h"

namespace distrun::shm {

using c10d::OpType;

c10::intrusive_ptr<c10d::Backend> OneHostBackend::make(const BackendRequest& request) const {
  return internal::make_one_host_backend(request);
}

OneHostBackend::WorkPtr OneHostBackend::begin_message(const char* name, OpType type,
                                                      const Tensors& tensors, int peer, int tag) {
  EndedTensors::release();
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": there are ", tensors.size(),
                    " tensors; expected 1");
  check_dense(name, tensors[0]);
  TORCH_CHECK_VALUE(tag >= 0, name, ": the tag is ", tag, "; expected at least 0");
  const bool is_rank = 0 <= peer && peer < getSize() && peer != getRank();
  TORCH_CHECK_VALUE(is_rank || type == OpType::RECVANYSOURCE, name, ": the other rank is ", peer,
                    "; expected 0 to ", getSize() - 1, ", and not this one");
  if (type != OpType::SEND) check_writable(name, tensors[0]);
  const ShmWork::Facts facts{.rank = getRank(), .type = type, .number = calls()};
  auto work = c10::make_intrusive<MessageWork>(facts, group_, tensors[0], timeout());
  with_backend_errors([&] {
    if (type == OpType::SEND) {
      MessageWork::send(work, peer, static_cast<std::uint32_t>(tag));
    } else {
      MessageWork::receive(work, peer, static_cast<std::uint32_t>(tag));
    }
  });
  return work;
}

OneHostBackend::WorkPtr OneHostBackend::send(Tensors& tensors, int to, int tag) {
  return begin_message("send", OpType::SEND, tensors, to, tag);
}

OneHostBackend::WorkPtr OneHostBackend::recv(Tensors& tensors, int from, int tag) {
  return begin_message("recv", OpType::RECV, tensors, from, tag);
}

OneHostBackend::WorkPtr OneHostBackend::recvAnysource(Tensors& tensors, int tag) {
  return begin_message("recv", OpType::RECVANYSOURCE, tensors, kAnyRank, tag);
}

}  // namespace distrun::shm
