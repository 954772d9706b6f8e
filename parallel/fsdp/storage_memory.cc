#include "parallel/fsdp/storage_memory.h"

#include <utility>

#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>

namespace distrun::internal {

void allocate_memory(const at::Tensor& tensor) {
  const c10::OptionalDeviceGuard guard(tensor.device());
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const std::size_t bytes = tensor.nbytes();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void free_memory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
  storage->set_nbytes(0);
}

}  // namespace distrun::internal
