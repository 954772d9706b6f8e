// StoreEntry is a key and its value in one block of memory: in a store with many small entries, two
// std::strings would take more memory than their contents.
//
//     StoreEntry entry("key", "value");
//     entry.set_value("a longer value");
//
//     ┌ u32 key size │ u32 value size │ u32 value room │ key │ value │ … ┐
//
// Requires sizes below 4 GiB, which StoreLimits ensures.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string_view>

namespace distrun {

class StoreEntry {
 public:
  StoreEntry(std::string_view key, std::string_view value) {
    const Sizes sizes{narrow(key.size()), narrow(value.size()), narrow(value.size())};
    allocate(sizes, sizes.room);
    std::memcpy(block_.get(), &sizes, sizeof(sizes));
    key.copy(block_.get() + sizeof(sizes), key.size());
    value.copy(value_begin(sizes), value.size());
  }

  std::string_view key() const { return {block_.get() + sizeof(Sizes), sizes().key}; }

  std::string_view value() const {
    const Sizes sizes = this->sizes();
    return {value_begin(sizes), sizes.value};
  }

  // const because a set hands out const elements; the key never changes. The arguments must not be
  // views of this entry.
  void set_value(std::string_view value) const {
    Sizes sizes = this->sizes();
    sizes.value = narrow(value.size());
    // Keeps the room, unless much of it is unused.
    if (sizes.value > sizes.room || sizes.room / 4 > sizes.value + kRoomKept) {
      make_room(sizes, sizes.value);
    }
    value.copy(value_begin(sizes), value.size());
    std::memcpy(block_.get(), &sizes, sizeof(sizes));
  }

  void append(std::string_view more) const {
    Sizes sizes = this->sizes();
    const std::size_t size = sizes.value + more.size();
    if (size > sizes.room) make_room(sizes, room_for(size));
    more.copy(value_begin(sizes) + sizes.value, more.size());
    sizes.value = narrow(size);
    std::memcpy(block_.get(), &sizes, sizeof(sizes));
  }

  // The memory that append() would add.
  std::size_t growth_by(std::string_view more) const {
    const Sizes sizes = this->sizes();
    const std::size_t size = sizes.value + more.size();
    return size > sizes.room ? room_for(size) - sizes.room : 0;
  }

  // Approximate memory, including its place in a table.
  std::size_t bytes() const {
    constexpr std::size_t kPlace = 40;
    const Sizes sizes = this->sizes();
    return kPlace + sizeof(Sizes) + sizes.key + sizes.room;
  }

 private:
  struct Sizes {
    std::uint32_t key, value, room;
  };
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  static constexpr std::uint32_t kRoomKept = 1024;

  // A value that grows is likely to grow again.
  static std::size_t room_for(std::size_t size) { return size + size / 2; }

  static std::uint32_t narrow(std::size_t size) { return static_cast<std::uint32_t>(size); }

  Sizes sizes() const {
    Sizes sizes;
    std::memcpy(&sizes, block_.get(), sizeof(sizes));
    return sizes;
  }

  char* value_begin(const Sizes& sizes) const { return block_.get() + sizeof(sizes) + sizes.key; }

  void allocate(const Sizes& sizes, std::size_t room) const {
    void* block = std::realloc(block_.get(), sizeof(sizes) + sizes.key + room);
    if (block == nullptr) throw std::bad_alloc();
    static_cast<void>(block_.release());  // realloc has freed or reused it.
    block_.reset(static_cast<char*>(block));
  }

  void make_room(Sizes& sizes, std::size_t room) const {
    allocate(sizes, room);
    sizes.room = narrow(room);
  }

  mutable std::unique_ptr<char, Free> block_;
};

// To look up an entry by its key.
struct StoreEntryHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  std::size_t operator()(const StoreEntry& entry) const { return (*this)(entry.key()); }
};
struct StoreEntryEqual {
  using is_transparent = void;
  bool operator()(const StoreEntry& a, const StoreEntry& b) const { return a.key() == b.key(); }
  bool operator()(const StoreEntry& a, std::string_view key) const { return a.key() == key; }
  bool operator()(std::string_view key, const StoreEntry& a) const { return a.key() == key; }
};

}  // namespace distrun
