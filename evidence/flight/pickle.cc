#include "evidence/flight/pickle.h"

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
    std::optional<std::uint32_t> slot;  // Of the memo, whose value grows with this one.
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

  void push(json value) { stack_.push_back({std::move(value), std::nullopt}); }

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

  std::vector<json> pop_all(std::size_t count) {
    if (count > stack_.size()) throw BadPickle("values are missing");
    std::vector<json> values;
    for (std::size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      values.push_back(std::move(stack_[i].value));
    }
    stack_.resize(stack_.size() - count);
    return values;
  }

  Item& container(json::value_t type) {
    if (stack_.empty() || stack_.back().value.type() != type) throw BadPickle("no container");
    return stack_.back();
  }

  void append(std::size_t count) {
    std::vector<json> values = pop_all(count);
    Item& list = container(json::value_t::array);
    for (json& value : values) list.value.push_back(std::move(value));
    remember(list);
  }

  void set(std::size_t count) {
    std::vector<json> values = pop_all(count);
    if (values.size() % 2 != 0) throw BadPickle("a key has no value");
    Item& dict = container(json::value_t::object);
    for (std::size_t i = 0; i < values.size(); i += 2) {
      if (!values[i].is_string()) throw BadPickle("a key is no string");
      dict.value[values[i].get<std::string>()] = std::move(values[i + 1]);
    }
    remember(dict);
  }

  void tuple(std::size_t count) { push(json(pop_all(count))); }

  void memoize(std::uint32_t slot) {
    if (stack_.empty()) throw BadPickle("it has no value");
    stack_.back().slot = slot;
    remember(stack_.back());
  }

  void remember(const Item& item) {
    if (item.slot) memo_[*item.slot] = item.value;
  }

  void recall(std::uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) throw BadPickle("a value is missing");
    push(found->second);
  }

  std::string_view rest_;
  std::vector<Item> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint32_t, json> memo_;
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
