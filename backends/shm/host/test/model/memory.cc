#include "backends/shm/host/test/model/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace distrun::shm::model {

namespace {

constexpr std::size_t kSharedBytes = std::size_t{256} * 1024;

// The last accesses to a byte.
struct Shadow {
  std::array<std::uint16_t, kThreadsMax> reads{};
  std::uint16_t write = 0;
  std::int8_t writer = -1;
  bool is_used = false;
};

alignas(4096) std::array<std::byte, kSharedBytes> shared_memory;
std::array<Shadow, kSharedBytes> shadows;

std::size_t offset_of(const void* address) {
  return static_cast<std::size_t>(static_cast<const std::byte*>(address) - shared_memory.data());
}

}  // namespace

std::byte* Memory::take(std::size_t bytes) {
  constexpr std::size_t kApart = 128;
  std::byte* begin = shared_memory.data() + used_bytes_;
  used_bytes_ += (bytes + kApart - 1) / kApart * kApart;
  if (used_bytes_ > kSharedBytes) std::abort();
  return begin;
}

bool Memory::contains(const void* address) { return offset_of(address) < kSharedBytes; }

void Memory::name(const void* address, const std::string& name) {
  if (name_numbers_.count(address) != 0) return;
  const auto found = std::find(names_.begin(), names_.end(), name);
  name_numbers_[address] = static_cast<std::size_t>(found - names_.begin());
  if (found == names_.end()) names_.push_back(name);
}

void Memory::add_thread(int thread) {
  View& view = view_of(thread);
  view = View();
  view.clock[static_cast<std::size_t>(thread)] = 1;
}

std::size_t Memory::location_of(const void* address, int bytes) {
  for (std::size_t i = 0; i < locations_count_; ++i) {
    if (locations_[i].address == address) return i;
  }
  if (locations_count_ == kLocationsMax) std::abort();
  Location& made = locations_[locations_count_];
  made.address = address;
  made.bytes = bytes;
  const auto name = name_numbers_.find(address);
  made.name_number = name != name_numbers_.end() ? name->second : 0;
  made.name = names_[made.name_number];
  made.messages.assign(1, Message());
  made.order.assign(1, 0);
  made.awake_from = 0;
  made.holder = -1;
  if (bytes != 0) {
    std::memcpy(&made.messages[0].value, address, static_cast<std::size_t>(bytes));
  }
  return locations_count_++;
}

void Memory::add_choices(int thread, std::size_t location, const Operation& operation,
                         std::vector<std::int16_t>& choices) const {
  const Location& its = locations_[location];
  int first = place(location, view_of(thread).seen[location]);
  if (operation.kind == Kind::kSleep) first = std::max(first, place(location, its.awake_from));
  for (std::size_t i = static_cast<std::size_t>(first); i < its.order.size(); ++i) {
    const std::int16_t number = its.order[i];
    const Message& message = its.messages[static_cast<std::size_t>(number)];
    if (writes(operation, message.value) && message.is_read_by_update) continue;
    choices.push_back(number);
  }
}

void Memory::read(int thread, std::size_t location, std::int16_t message, bool acquires) {
  View& view = view_of(thread);
  view.seen[location] = message;
  if (acquires) join(view, locations_[location].messages[static_cast<std::size_t>(message)].view);
}

void Memory::write(int thread, std::size_t location, const Write& write) {
  Location& its = locations_[location];
  const auto number = static_cast<std::int16_t>(its.messages.size());
  Message made;
  made.value = cut(write.value, its.bytes);
  if (write.is_update) {
    Message& read = its.messages[static_cast<std::size_t>(write.after)];
    read.is_read_by_update = true;
    made.view = read.view;
  }
  made.place = place(location, write.after) + 1;
  for (std::size_t i = static_cast<std::size_t>(made.place); i < its.order.size(); ++i) {
    ++its.messages[static_cast<std::size_t>(its.order[i])].place;
  }
  its.order.insert(its.order.begin() + made.place, number);
  its.messages.push_back(made);
  View& mine = view_of(thread);
  mine.seen[location] = number;
  View& view = its.messages.back().view;
  view.seen[location] = number;
  if (write.releases) {
    join(view, mine);
    ++mine.clock[static_cast<std::size_t>(thread)];
  }
  const std::uint64_t last = its.messages[static_cast<std::size_t>(its.order.back())].value;
  std::memcpy(const_cast<void*>(its.address), &last, static_cast<std::size_t>(its.bytes));
}

void Memory::see_all(int thread) {
  for (std::size_t i = 0; i < locations_count_; ++i) {
    view_of(thread).seen[i] = locations_[i].order.back();
  }
}

bool Memory::has_news(int thread) const {
  for (std::size_t i = 0; i < locations_count_; ++i) {
    if (view_of(thread).seen[i] != locations_[i].order.back()) return true;
  }
  return false;
}

void Memory::wake(int thread, std::size_t location) {
  const std::int16_t seen = view_of(thread).seen[location];
  std::int16_t& awake_from = locations_[location].awake_from;
  if (place(location, seen) > place(location, awake_from)) awake_from = seen;
}

void Memory::lock(int thread, std::size_t location) {
  locations_[location].holder = thread;
  join(view_of(thread), locations_[location].messages[0].view);
}

void Memory::unlock(int thread, std::size_t location) {
  View& mine = view_of(thread);
  View& view = locations_[location].messages[0].view;
  locations_[location].holder = -1;
  view = mine;
  view.seen[location] = 0;
  ++mine.clock[static_cast<std::size_t>(thread)];
}

std::string Memory::access(int thread, const void* address, std::size_t bytes, bool is_write) {
  const auto& clock = view_of(thread).clock;
  const auto me = static_cast<std::size_t>(thread);
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t at = offset_of(address) + i;
    if (at >= kSharedBytes) break;
    Shadow& shadow = shadows[at];
    if (!shadow.is_used) {
      shadow.is_used = true;
      used_shadows_.push_back(at);
    }
    bool is_race =
        shadow.writer >= 0 && clock[static_cast<std::size_t>(shadow.writer)] < shadow.write;
    if (is_write) {
      for (std::size_t other = 0; other < kThreadsMax; ++other) {
        is_race = is_race || clock[other] < shadow.reads[other];
      }
      shadow.writer = static_cast<std::int8_t>(thread);
      shadow.write = clock[me];
      shadow.reads = {};
    } else {
      shadow.reads[me] = clock[me];
    }
    if (is_race) {
      return "data race: thread " + std::to_string(thread) + (is_write ? " writes" : " reads") +
             " byte " + std::to_string(at) + " of the shared memory";
    }
  }
  return "";
}

void Memory::clear() {
  for (const std::size_t at : used_shadows_) shadows[at] = Shadow();
  used_shadows_.clear();
  std::memset(shared_memory.data(), 0, used_bytes_);
  used_bytes_ = 0;
  locations_count_ = 0;
}

int Memory::place(std::size_t location, std::int16_t message) const {
  return locations_[location].messages[static_cast<std::size_t>(message)].place;
}

void Memory::join(View& view, const View& other) const {
  for (std::size_t i = 0; i < locations_count_; ++i) {
    if (place(i, other.seen[i]) > place(i, view.seen[i])) view.seen[i] = other.seen[i];
  }
  for (std::size_t i = 0; i < kThreadsMax; ++i) {
    view.clock[i] = std::max(view.clock[i], other.clock[i]);
  }
}

}  // namespace distrun::shm::model
