#include "parallel/fsdp/storage_memory.h"

#include <memory>
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

void use_memory_of(const at::Tensor& tensor, const at::Tensor& other) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  auto owner = std::make_unique<at::Tensor>(other);
  void* const data = other.mutable_data_ptr();
  storage->set_data_ptr_noswap(c10::DataPtr(
      data, owner.release(), [](void* its) { delete static_cast<at::Tensor*>(its); },
      other.device()));
  storage->set_nbytes(other.nbytes());
}

void free_memory(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, storage->device()));
  storage->set_nbytes(0);
}

}  // namespace distrun::internal
