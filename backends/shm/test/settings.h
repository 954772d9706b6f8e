// For tests: settings in the environment.
#pragma once

#include <cstdlib>

namespace distrun::shm::test {

inline int number_in(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace distrun::shm::test
