// The text of its arguments, one after the other, for messages. The fmt library of the system and
// the one in LibTorch's headers do not mix.
#pragma once

#include <sstream>
#include <string>

namespace distrun::shm {

template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace distrun::shm
