// The backend shm on one host: collectives and messages through shared memory.
//
// Errors and thread safety: see shm_backend.h.
#pragma once

#include <memory>
#include <vector>

#include "backends/shm/host/host_group.h"
#include "backends/shm/shm_backend.h"

namespace distrun::shm {

class OneHostBackend : public ShmBackend {
 public:
  OneHostBackend(int rank, int size, c10::intrusive_ptr<Options> options,
                 const std::shared_ptr<HostGroup>& group)
      : ShmBackend(rank, size, std::move(options), group), group_(group) {}

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  c10::intrusive_ptr<Backend> make(const BackendRequest& request) const override;
  // Sends or receives a tensor.
  WorkPtr begin_message(const char* name, c10d::OpType type, const Tensors& tensors, int peer,
                        int tag);

  const std::shared_ptr<HostGroup> group_;
};

}  // namespace distrun::shm
