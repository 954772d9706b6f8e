// The backend shm on one host: collectives and messages through shared memory, and tensors that are
// reduced in place.
//
// Errors and thread safety: see shm_backend.h.
#pragma once

#include <memory>
#include <vector>

#include "backends/group/shared_tensors.h"
#include "backends/shm/host/host_group.h"
#include "backends/shm/shm_backend.h"

namespace distrun::shm {

class OneHostBackend : public ShmBackend, public internal::SharesTensors {
 public:
  OneHostBackend(int rank, int size, c10::intrusive_ptr<Options> options,
                 const std::shared_ptr<HostGroup>& group)
      : ShmBackend(rank, size, std::move(options), group), group_(group) {}

  // Makes a backend of some ranks of this group, which must all call this; null on other ranks.
  // Blocks until they have met.
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  // Does nothing to a tensor that is shared already, or too small to be reduced in place.
  Result<void> share(const at::Tensor& tensor) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  // Sends or receives a tensor.
  WorkPtr begin_message(const char* name, c10d::OpType type, const Tensors& tensors, int peer,
                        int tag);

  const std::shared_ptr<HostGroup> group_;
};

}  // namespace distrun::shm
