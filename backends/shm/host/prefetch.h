// Asks the processor to fetch a line of memory, without waiting for it.
#pragma once

namespace distrun::shm {

inline void prefetch_to_read(const void* place) { __builtin_prefetch(place); }

// Also takes the line from the caches of other processors.
inline void prefetch_to_write(const void* place) {
#if defined(__x86_64__)
  // The compiler has it only for some processors; all others of 64 bits ignore it.
  asm volatile("prefetchw\t%0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, /*rw=*/1);
#endif
}

}  // namespace distrun::shm
