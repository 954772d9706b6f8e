// The shared memory of a program, by the model of release and acquire that explorer.h describes:
// the messages of each location, the view of each thread, and the last accesses to each byte.
//
//     Memory memory;
//     const std::byte* word = memory.take(4);
//     for (const int thread : {0, 1}) memory.add_thread(thread);
//     const std::size_t location = memory.location_of(word, 4);
//     memory.write(0, location, {.value = 7, .after = 0, .releases = true});  // Message 1.
//     memory.read(1, location, 1, /*acquires=*/true);
//     memory[location].messages[1].value;  // 7
//
// It says which messages an operation may choose; the caller chooses one. It serves one execution
// after another, with clear() between them. A process has one Memory at a time, because its bytes
// have a fixed place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/shm/host/test/model/operation.h"

namespace distrun::shm::model {

constexpr int kThreadsMax = 6;
constexpr std::size_t kLocationsMax = 32;

// The knowledge of a thread, or of a message.
struct View {
  std::array<std::int16_t, kLocationsMax> seen{};  // The number of a message of each location.
  std::array<std::uint16_t, kThreadsMax> clock{};  // How much of each thread happened before.
};

struct Message {
  std::uint64_t value = 0;
  View view;
  int place = 0;  // In modification order.
  bool is_read_by_update = false;
};

// The bytes of an atomic, or a mutex. Message 0 is the value before its first operation.
struct Location {
  const void* address = nullptr;
  int bytes = 0;
  std::size_t name_number = 0;  // Equal names have equal numbers, also in the next execution.
  std::string name;
  std::vector<Message> messages;    // By number: in the order in which they were written.
  std::vector<std::int16_t> order;  // Their numbers, in modification order.
  std::int16_t awake_from = 0;      // A thread that goes to sleep sees this message, or later ones.
  int holder = -1;                  // Of a mutex.
};

struct Write {
  std::uint64_t value = 0;
  std::int16_t after = 0;  // The message before it, in modification order.
  bool is_update = false;  // Has read that message.
  bool releases = false;
};

class Memory {
 public:
  // Bytes of zeros, at the same place in each execution.
  std::byte* take(std::size_t bytes);
  static bool contains(const void* address);
  // Names a location. Its first name counts, also in the next execution.
  void name(const void* address, const std::string& name);

  // A thread, from 0 to kThreadsMax - 1, that has seen nothing.
  void add_thread(int thread);

  // The number of the location with this address, which the first call makes.
  std::size_t location_of(const void* address, int bytes);
  const Location& operator[](std::size_t location) const { return locations_[location]; }

  // Adds the messages, in modification order, that the operation may read, or write after. For
  // kinds that choose a message.
  void add_choices(int thread, std::size_t location, const Operation& operation,
                   std::vector<std::int16_t>& choices) const;
  void read(int thread, std::size_t location, std::int16_t message, bool acquires);
  void write(int thread, std::size_t location, const Write& write);
  // Sees the last message of each location, and acquires nothing.
  void see_all(int thread);
  // Whether a location has a later message than the thread has seen.
  bool has_news(int thread) const;

  // A thread that goes to sleep from now on sees at least what this thread has seen of the
  // location.
  void wake(int thread, std::size_t location);
  // Of a mutex that no thread holds, and of one that this thread holds.
  void lock(int thread, std::size_t location);
  void unlock(int thread, std::size_t location);

  // An access to plain memory. Returns the text of the data race, or "".
  std::string access(int thread, const void* address, std::size_t bytes, bool is_write);

  // Forgets all but the names.
  void clear();

 private:
  View& view_of(int thread) { return views_[static_cast<std::size_t>(thread)]; }
  const View& view_of(int thread) const { return views_[static_cast<std::size_t>(thread)]; }
  int place(std::size_t location, std::int16_t message) const;
  void join(View& view, const View& other) const;

  std::array<View, kThreadsMax> views_;  // Of the threads.
  std::array<Location, kLocationsMax> locations_;
  std::size_t locations_count_ = 0;
  std::size_t used_bytes_ = 0;
  std::vector<std::size_t> used_shadows_;
  std::map<const void*, std::size_t> name_numbers_;
  std::vector<std::string> names_ = {"?"};
};

}  // namespace distrun::shm::model
