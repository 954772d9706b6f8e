// Words in shared memory on which threads sleep until another process changes them (futex(2)).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace distrun::shm {

// The lowest bit of a bell (rank_memory.h): a thread sleeps until it changes.
inline constexpr std::uint32_t kHasSleeper = 1;
// How long a thread sleeps before it looks whether its peers are still there.
inline constexpr std::chrono::milliseconds kLookAround(50);

// Returns when the word differs from `seen`, after wake_sleepers(), after `limit`, or for no
// reason.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen,
              std::chrono::milliseconds limit);
// Wakes all threads that sleep on the word, in all processes.
void wake_sleepers(std::atomic<std::uint32_t>& word);

// Lets the other thread of the core run for some cycles.
void pause_briefly();

}  // namespace distrun::shm
