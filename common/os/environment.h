// Environment is a set of environment variables as a value. Nothing below cli/ calls getenv.
//
//     Environment environment = Environment::from(environ);
//     environment.set("RANK", "3");
//     Environment::Block block = environment.block();
//     ::execve(path, argv, block.pointers());
//
// Ordered by name, so output does not depend on the shell. Of duplicate names the first counts, as
// in getenv().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distrun {

class Environment {
 public:
  Environment() = default;

  // `variables` ends with a null pointer, like ::environ.
  static Environment from(const char* const* variables);

  // Empty if the variable is not set. An empty value is a value.
  std::optional<std::string> get(std::string_view name) const;

  void set(std::string name, std::string value);

  void set_default(const std::string& name, const std::string& value);

  void unset(std::string_view name);

  const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

  // The form that execve() takes. Pointers are valid while the Block lives.
  class Block {
   public:
    Block() = default;
    Block(Block&&) = default;  // A copy's pointers would refer to the original.
    Block& operator=(Block&&) = default;
    const char* const* pointers() const { return pointers_.data(); }

   private:
    friend class Environment;
    std::vector<std::string> lines_;
    std::vector<const char*> pointers_;
  };
  Block block() const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace distrun
