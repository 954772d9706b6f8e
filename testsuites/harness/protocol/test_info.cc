#include "distrun/test_info.h"

namespace distrun {

TestIdParts parts_of(std::string_view id) {
  const auto take = [&id] {
    const std::size_t dot = id.find('.');
    const std::string_view part = id.substr(0, dot);
    id = dot == std::string_view::npos ? std::string_view() : id.substr(dot + 1);
    return part;
  };
  TestIdParts parts;
  parts.suite = take();
  parts.test_class = take();
  parts.name = id;
  return parts;
}

}  // namespace distrun
