#include "evidence/flight/pickle.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace distrun {

namespace {

using nlohmann::json;

constexpr int kDepthMax = 32;
constexpr std::size_t kBytesMax = std::size_t{256} << 20;
constexpr std::size_t kValueBytes = 64;

struct BadPickle : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The opcodes of pickle protocols 2 to 5 for plain values (Python's Lib/pickletools.py).
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : rest_(bytes) {}

  json read() {
    while (true) {
      const auto opcode = static_cast<unsigned char>(take(1).front());
      if (opcode == '.') return pop().value;
      perform(opcode);
    }
  }

 private:
  struct Item {
    json value;
    int depth = 0;                      // Of the containers in it.
    std::size_t bytes = 0;              // About what it takes.
    std::optional<std::uint32_t> slot;  // Of the memo, which has it too.
  };

  void perform(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        take(1);
        return;  // Protocol.
      case 0x95:
        take(8);
        return;  // Frame.
      case 'N':
        return push(nullptr);
      case 0x88:
        return push(true);
      case 0x89:
        return push(false);
      case 'J':
        return push(number<std::int32_t>());
      case 'K':
        return push(number<std::uint8_t>());
      case 'M':
        return push(number<std::uint16_t>());
      case 0x8a:
        return push(long_number(number<std::uint8_t>()));
      case 'G':
        return push(std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>())));
      case 'X':
        return push(text(number<std::uint32_t>()));
      case 0x8c:
        return push(text(number<std::uint8_t>()));
      case 0x8d:
        return push(text(number<std::uint64_t>()));
      case '(':
        marks_.push_back(stack_.size());
        return;
      case ']':
      case ')':
        return push(json::array());
      case '}':
        return push(json::object());
      case 'a':
        return append(1);
      case 'e':
        return append(since_mark());
      case 's':
        return set(2);
      case 'u':
        return set(since_mark());
      case 't':
        return tuple(since_mark());
      case 0x85:
        return tuple(1);
      case 0x86:
        return tuple(2);
      case 0x87:
        return tuple(3);
      case 'q':
        return memoize(number<std::uint8_t>());
      case 'r':
        return memoize(number<std::uint32_t>());
      case 0x94:
        return memoize(static_cast<std::uint32_t>(memo_.size()));
      case 'h':
        return recall(number<std::uint8_t>());
      case 'j':
        return recall(number<std::uint32_t>());
      default:
        throw BadPickle(fmt::format("opcode {:#04x}", opcode));
    }
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) throw BadPickle("it ends early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  // Little-endian, two's complement.
  std::int64_t long_number(std::uint8_t size) {
    const std::string_view bytes = take(size);
    if (size > 8) throw BadPickle("a number of more than 8 bytes");
    const bool is_negative = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0;
    std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return static_cast<std::int64_t>(value);
  }

  std::string text(std::uint64_t size) { return std::string(take(size)); }

  void push(json value) {
    const std::size_t size = value.is_string() ? value.get_ref<const std::string&>().size() : 0;
    push({std::move(value), 0, kValueBytes + size, std::nullopt});
  }

  // A value that is new, or a copy.
  void push(Item item) {
    spend(item.bytes);
    stack_.push_back(std::move(item));
  }

  void spend(std::size_t bytes) {
    spent_ += bytes;
    if (spent_ > kBytesMax) throw BadPickle("it is too large");
  }

  Item pop() {
    if (stack_.empty()) throw BadPickle("it has no value");
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }

  std::size_t since_mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) throw BadPickle("a mark is missing");
    const std::size_t begin = marks_.back();
    marks_.pop_back();
    return stack_.size() - begin;
  }

  struct Values {
    std::vector<json> all;
    int depth = 0;  // Of a container with them.
    std::size_t bytes = 0;
  };

  Values pop_all(std::size_t count) {
    if (count > stack_.size()) throw BadPickle("values are missing");
    Values values;
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      values.depth = std::max(values.depth, stack_[i].depth);
      values.bytes += stack_[i].bytes;
      values.all.push_back(std::move(stack_[i].value));
    }
    if (++values.depth > kDepthMax) throw BadPickle("it is nested too deeply");
    stack_.resize(stack_.size() - count);
    return values;
  }

  Item& container(json::value_t type) {
    if (stack_.empty() || stack_.back().value.type() != type) throw BadPickle("no container");
    return stack_.back();
  }

  void append(std::size_t count) {
    Values values = pop_all(count);
    Item& list = container(json::value_t::array);
    for (json& value : values.all) list.value.push_back(std::move(value));
    grow(list, values.depth, values.bytes);
  }

  void set(std::size_t count) {
    auto [values, depth, bytes] = pop_all(count);
    if (values.size() % 2 != 0) throw BadPickle("a key has no value");
    Item& dict = container(json::value_t::object);
    for (std::size_t i = 0; i < values.size(); i += 2) {
      if (!values[i].is_string()) throw BadPickle("a key is not a string");
      dict.value[values[i].get<std::string>()] = std::move(values[i + 1]);
    }
    grow(dict, depth, bytes);
  }

  void grow(Item& container, int depth, std::size_t bytes) {
    container.depth = std::max(container.depth, depth);
    container.bytes += bytes;
    // LibTorch memoizes a container when it is complete.
    if (container.slot) memo_[*std::exchange(container.slot, std::nullopt)].reset();
  }

  void tuple(std::size_t count) {
    Values values = pop_all(count);
    // Its values have been counted.
    stack_.push_back({json(std::move(values.all)), values.depth, values.bytes, std::nullopt});
    spend(kValueBytes);
  }

  void memoize(std::uint32_t slot) {
    if (stack_.empty()) throw BadPickle("it has no value");
    Item& item = stack_.back();
    spend(item.bytes);
    memo_[slot] = item;
    item.slot = slot;
  }

  void recall(std::uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) throw BadPickle("a value is missing");
    if (!found->second) throw BadPickle("it uses a container twice that grows in between");
    push(*found->second);
  }

  std::string_view rest_;
  std::vector<Item> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, std::optional<Item>> memo_;  // nullopt: it has grown since.
  std::size_t spent_ = 0;
};

}  // namespace

Result<json> read_pickle(std::string_view bytes) {
  try {
    // A json converts to anything, so the kind of result must be named.
    return Result<json>(boost::system::in_place_value, Unpickler(bytes).read());
  } catch (const BadPickle& bad) {
    return Error{ErrorKind::kProtocol, fmt::format("not a pickle of plain values: {}", bad.what())};
  }
}

}  // namespace distrun
