#include "common/os/environment.h"

#include <utility>

namespace distrun {

Environment Environment::from(const char* const* variables) {
  Environment environment;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view line = *variables;
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.set_default(std::string(line.substr(0, equals)),
                            std::string(line.substr(equals + 1)));
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

void Environment::set(std::string name, std::string value) {
  variables_.insert_or_assign(std::move(name), std::move(value));
}

void Environment::set_default(const std::string& name, const std::string& value) {
  variables_.emplace(name, value);
}

void Environment::unset(std::string_view name) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) variables_.erase(found);
}

Environment::Block Environment::block() const {
  Block block;
  block.lines_.reserve(variables_.size());
  block.pointers_.reserve(variables_.size() + 1);
  for (const auto& [name, value] : variables_) {
    block.lines_.push_back(name);
    block.lines_.back().append("=").append(value);
    block.pointers_.push_back(block.lines_.back().c_str());
  }
  block.pointers_.push_back(nullptr);
  return block;
}

}  // namespace distrun
