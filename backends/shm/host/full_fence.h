// Orders all memory accesses before it before all accesses after it, also those of plain data.
#pragma once

#include <atomic>

namespace distrun::shm {

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // ThreadSanitizer does not follow fences.
#endif
inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace distrun::shm
