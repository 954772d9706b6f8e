#include "store/protocol/request_parser.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace distrun {

Result<std::size_t> StoreRequestParser::next(std::string_view bytes) {
  Step step = taken_ == 0 ? begin(bytes) : Step::kDone;
  if (step == Step::kDone) {
    const auto& fields = request_spec(request_.code).fields;
    while (step == Step::kDone && field_ < fields.size() && fields[field_] != Field::kNone) {
      step = read_field(bytes, fields[field_]);
      if (step == Step::kDone) ++field_;
    }
  }
  if (step == Step::kDone) step = finish(bytes);
  switch (step) {
    case Step::kDone:
      return std::exchange(taken_, 0);
    case Step::kNeedMore:
      return std::size_t{0};
    case Step::kBad:
      break;
  }
  return error_;
}

namespace {

// For the next request.  Frees the memory of long lists.
template <class Item>
void clear(std::vector<Item>& items) {
  constexpr std::size_t kKeptItems = 16;
  if (items.capacity() > kKeptItems) std::vector<Item>().swap(items);
  items.clear();
}

}  // namespace

std::size_t StoreRequestParser::bytes() const {
  return (keys_.capacity() + values_.capacity()) * sizeof(Place) +
         (request_.keys.capacity() + request_.values.capacity()) * sizeof(std::string_view);
}

StoreRequestParser::Step StoreRequestParser::begin(std::string_view bytes) {
  clear(keys_);
  clear(values_);
  clear(request_.keys);
  clear(request_.values);
  if (bytes.empty()) return Step::kNeedMore;
  const auto code = static_cast<std::uint8_t>(bytes[0]);
  if (request_index(code) == kRequestCount)
    return bad(fmt::format("no request has the code {}", code));
  request_.code = static_cast<RequestCode>(code);
  if (!greeted_ && request_.code != RequestCode::kValidate) {
    return bad(fmt::format("the connection begins with {} instead of validate", request_.name()));
  }
  if (greeted_ && request_.code == RequestCode::kValidate) return bad("validate for a second time");
  taken_ = 1;
  field_ = 0;
  return Step::kDone;
}

StoreRequestParser::Step StoreRequestParser::read_field(std::string_view bytes, Field field) {
  switch (field) {
    case Field::kKey:
      return read_text(bytes, limits_.key_bytes_max, "key", keys_);
    case Field::kValue:
      return read_text(bytes, limits_.value_bytes_max, "value", values_);
    case Field::kKeys:
      return read_list(bytes, /*with_values=*/false);
    case Field::kEntries:
      return read_list(bytes, /*with_values=*/true);
    case Field::kInt64:
      return read_number(bytes, request_.number);
    case Field::kUint32: {
      std::uint32_t number = 0;
      const Step step = read_number(bytes, number);
      request_.number = number;
      return step;
    }
    case Field::kNone:
      break;
  }
  return Step::kDone;
}

StoreRequestParser::Step StoreRequestParser::read_list(std::string_view bytes, bool with_values) {
  if (!in_list_) {
    if (read_number(bytes, list_left_) == Step::kNeedMore) return Step::kNeedMore;
    if (list_left_ > limits_.keys_max) {
      return bad(fmt::format("{} with {} keys: at most {} are allowed", request_.name(), list_left_,
                             limits_.keys_max));
    }
    in_list_ = true;
  }
  for (; list_left_ > 0; --list_left_) {
    if (!value_is_next_) {
      const Step step = read_text(bytes, limits_.key_bytes_max, "key", keys_);
      if (step != Step::kDone) return step;
    }
    if (with_values) {
      value_is_next_ = true;
      const Step step = read_text(bytes, limits_.value_bytes_max, "value", values_);
      if (step != Step::kDone) return step;
      value_is_next_ = false;
    }
  }
  in_list_ = false;
  return Step::kDone;
}

StoreRequestParser::Step StoreRequestParser::read_text(std::string_view bytes,
                                                       std::size_t bytes_max, std::string_view what,
                                                       std::vector<Place>& into) {
  std::uint64_t size = 0;
  if (bytes.size() - taken_ < sizeof(size)) return Step::kNeedMore;
  std::memcpy(&size, bytes.data() + taken_, sizeof(size));
  if (size > bytes_max) {
    return bad(fmt::format("{} with a {} of {} bytes: at most {} are allowed", request_.name(),
                           what, size, bytes_max));
  }
  const std::size_t offset = taken_ + sizeof(size);
  if (offset + size > limits_.request_bytes_max) {
    return bad(fmt::format("{} with more than {} bytes in all", request_.name(),
                           limits_.request_bytes_max));
  }
  if (bytes.size() < offset + size) return Step::kNeedMore;
  into.push_back({offset, static_cast<std::size_t>(size)});
  taken_ = offset + size;
  return Step::kDone;
}

template <class Number>
StoreRequestParser::Step StoreRequestParser::read_number(std::string_view bytes, Number& into) {
  if (bytes.size() - taken_ < sizeof(Number)) return Step::kNeedMore;
  std::memcpy(&into, bytes.data() + taken_, sizeof(Number));
  taken_ += sizeof(Number);
  return Step::kDone;
}

// Turns places into views once the request is complete.
StoreRequestParser::Step StoreRequestParser::finish(std::string_view bytes) {
  if (!greeted_ && request_.number != kValidateMagic) {
    return bad(
        fmt::format("validate carries {:#x} instead of {:#x}", request_.number, kValidateMagic));
  }
  greeted_ = true;
  const auto resolve = [&](const std::vector<Place>& places, std::vector<std::string_view>& views) {
    views.clear();
    for (const Place& place : places) views.push_back(bytes.substr(place.offset, place.size));
  };
  resolve(keys_, request_.keys);
  resolve(values_, request_.values);
  return Step::kDone;
}

StoreRequestParser::Step StoreRequestParser::bad(std::string message) {
  error_ = {ErrorKind::kProtocol, std::move(message)};
  return Step::kBad;
}

}  // namespace distrun
