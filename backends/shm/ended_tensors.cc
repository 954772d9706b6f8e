#include "backends/shm/ended_tensors.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace distrun::shm {

namespace {

struct Kept {
  std::mutex mutex;
  std::vector<std::vector<at::Tensor>> tensors;
  std::atomic<bool> is_empty = true;  // Small calls read it without the mutex.
};

// Not destroyed at exit: Python has ended then.
Kept& kept() {
  static auto* const all = new Kept;
  return *all;
}

}  // namespace

void EndedTensors::keep(std::vector<at::Tensor> tensors) {
  const std::lock_guard lock(kept().mutex);
  kept().tensors.push_back(std::move(tensors));
  kept().is_empty = false;
}

void EndedTensors::release() {
  if (kept().is_empty) return;
  std::vector<std::vector<at::Tensor>> tensors;
  const std::lock_guard lock(kept().mutex);
  tensors.swap(kept().tensors);
  kept().is_empty = true;
}

}  // namespace distrun::shm
