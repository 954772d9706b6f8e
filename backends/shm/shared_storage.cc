#include "backends/shm/shared_storage.h"

#include <cstddef>
#include <cstring>

#include "backends/shm/host/host_collectives.h"

namespace distrun::shm {

Result<void> move_to_block(const at::Tensor& tensor, SharedBlocks& blocks) {
  if (tensor.nbytes() < kInPlaceBytes) return {};
  const auto* before = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (blocks.place_of(before, tensor.nbytes())) return {};
  auto block = blocks.allocate(tensor.nbytes());
  if (!block) return block.error();
  std::byte* const data = (*block)->data();
  std::memcpy(data, before, tensor.nbytes());
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(
      data, block->release(), [](void* its) { delete static_cast<SharedBlock*>(its); },
      tensor.device()));
  return {};
}

}  // namespace distrun::shm
