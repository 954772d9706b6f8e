#include "backends/shm/host/test/model/heap.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace distrun::shm::model {

bool in_program = false;

namespace {

constexpr std::size_t kHeapBytes = std::size_t{16} * 1024 * 1024;

alignas(64) std::array<std::byte, kHeapBytes> heap;
std::size_t heap_used = 0;

bool is_in_heap(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= heap.data() && byte < heap.data() + heap.size();
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (in_program) {
    const std::size_t begin = (heap_used + alignment - 1) / alignment * alignment;
    if (begin + bytes > heap.size()) std::abort();
    heap_used = begin + bytes;
    return heap.data() + begin;
  }
  void* memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void clear_heap() { heap_used = 0; }

}  // namespace distrun::shm::model

// Of the whole test program.
void* operator new(std::size_t bytes) { return distrun::shm::model::allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return distrun::shm::model::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  if (!distrun::shm::model::is_in_heap(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  operator delete(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  operator delete(memory);
}
