#include "sharing/memory/cuda_memory.h"

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "sharing/memory/holder_presence.h"
#include "sharing/memory/number_field.h"

namespace distrun::internal {

namespace {

// Memory that this process has shared: the allocator's pointer, and who else uses it.
struct Given {
  at::DataPtr memory;
  HolderPresence presence;
};

// Memory of another process.
struct Taken {
  std::shared_ptr<void> block;
  HolderPresence presence;
  c10::Device device;
};

// Memory that this process has dropped but others still use.
class Kept {
 public:
  // Never destroyed, because CUDA may be gone at exit.
  static Kept& instance() {
    static auto* const kept = new Kept;
    return *kept;
  }

  void keep(std::unique_ptr<Given> given) {
    const std::lock_guard lock(mutex_);
    given_.push_back(std::move(given));
    let_go();
  }

  void look_again() {
    const std::lock_guard lock(mutex_);
    let_go();
  }

 private:
  void let_go() {
    given_.remove_if([](const auto& given) { return !given->presence.other(Ability::kGet); });
  }

  std::mutex mutex_;
  std::list<std::unique_ptr<Given>> given_;
};

void drop_given(void* context) {
  Kept::instance().keep(std::unique_ptr<Given>(static_cast<Given*>(context)));
}

void drop_taken(void* context) {
  const std::unique_ptr<Taken> taken(static_cast<Taken*>(context));
  try {
    const c10::DeviceGuard guard(taken->device);
    c10::cuda::getCurrentCUDAStream(taken->device.index()).synchronize();
  } catch (const c10::Error&) {
    // CUDA has failed, so this process no longer uses the memory.
  }
}

// Handles are bytes; JSON strings must be text.
std::string to_hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) / 16];
    text += kDigits[static_cast<unsigned char>(byte) % 16];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  TORCH_CHECK_VALUE(text.size() % 2 == 0 && text.find_first_not_of("0123456789abcdef") == text.npos,
                    "take CUDA memory over: \"", text, "\" is not a handle");
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

}  // namespace

bool is_cuda_memory_shared(const c10::StorageImpl& storage) {
  const auto deleter = storage.data_ptr().get_deleter();
  return deleter == &drop_given || deleter == &drop_taken;
}

void share_cuda_memory(c10::StorageImpl& storage) {
  Kept::instance().look_again();
  if (is_cuda_memory_shared(storage)) return;
  HolderPresence presence = HolderPresence::make({.can_put = true});
  void* const data = storage.mutable_data();
  const c10::Device device = storage.device();
  auto given = std::make_unique<Given>(Given{at::DataPtr(), std::move(presence)});
  Given* const context = given.get();
  context->memory = storage.set_data_ptr(at::DataPtr(data, given.release(), &drop_given, device));
  storage.set_resizable(false);
}

nlohmann::json hand_over_cuda(const c10::StorageImpl& storage, MessageDescriptors& descriptors) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      storage.data_ptr().get_deleter() == &drop_given,
      "hand a tensor over: its memory belongs to another process, and only that "
      "process can hand it over: use its clone()");
  const c10::DeviceGuard guard(storage.device());
  c10::cuda::getCurrentCUDAStream(storage.device().index()).synchronize();
  c10::cuda::CUDACachingAllocator::ShareableHandle handle{0, ""};
  if (storage.nbytes() > 0) {
    handle = c10::cuda::CUDACachingAllocator::shareIpcHandle(const_cast<void*>(storage.data()));
  }
  const auto* given = static_cast<const Given*>(storage.data_ptr().get_context());
  HolderPresence presence = given->presence.another({.can_get = true});
  const int place = presence.places().get;
  const std::size_t descriptor = descriptors.all.size();
  descriptors.owned.push_back(presence.release());
  descriptors.all.push_back(descriptors.owned.back().get());
  return {descriptor, storage.nbytes(),      static_cast<int>(storage.device().index()),
          place,      to_hex(handle.handle), handle.offset};
}

c10::Storage take_over_cuda(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors) {
  const auto at = number_field<std::size_t>(fields.at(0));
  const auto bytes = number_field<std::size_t>(fields.at(1));
  const auto index = number_field<c10::DeviceIndex>(fields.at(2));
  const auto offset = number_field<std::ptrdiff_t>(fields.at(5));
  TORCH_CHECK_VALUE(at < descriptors.size() && index >= 0 && offset >= 0, "CUDA memory ",
                    fields.dump());
  const c10::Device device(c10::kCUDA, index);
  const c10::DeviceGuard guard(device);
  auto taken = std::make_unique<Taken>(
      Taken{nullptr,
            HolderPresence::taken_over(std::move(descriptors[at]),
                                       {.put = -1, .get = number_field<int>(fields.at(3))}),
            device});
  char* data = nullptr;
  if (bytes > 0) {
    taken->block =
        c10::cuda::CUDACachingAllocator::getIpcDevPtr(from_hex(fields.at(4).get<std::string>()));
    data = static_cast<char*>(taken->block.get()) + offset;
  }
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       at::DataPtr(data, taken.release(), &drop_taken, device));
  storage.unsafeGetStorageImpl()->set_received_cuda(true);
  return storage;
}

}  // namespace distrun::internal
