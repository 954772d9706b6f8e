// PrefixTemplate makes what stands before a worker's lines on the console.
//
//     auto prefix = PrefixTemplate::parse("[${role_name}${local_rank}]:");
//     if (!prefix) return prefix.error();     // "unknown ${rnak}; use …"
//     prefix->text({.role_name = "default", .local_rank = 3}, "")      // [default3]:
//
// A template is written as for Python's string.Template, which torchrun uses: `$name` or
// `${name}` stands for a value, `$$` for a dollar; a dollar before anything else stays as it is.
//
//     role_name rank local_rank     torchrun's
//     host stream time              distrun's own: `stream` is stdout or stderr
//
// Pure: the time is a parameter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/rank.h"
#include "distrun/result.h"

namespace distrun {

struct PrefixValues {
  std::string role_name;
  int rank = 0;
  int local_rank = 0;
  std::string host;
  std::string stream;
};

class PrefixTemplate {
 public:
  // The empty template: no prefix.
  PrefixTemplate() = default;

  // Fails with kInvalidArgument where a name is not known, naming those that are, or a brace is
  // not closed.
  static Result<PrefixTemplate> parse(std::string_view text);

  // torchrun's own: "[${role_name}${local_rank}]:".
  static PrefixTemplate torchruns();

  std::string text(const PrefixValues& values, std::string_view time) const;

  bool is_empty() const { return parts_.empty(); }
  bool shows_time() const;

 private:
  enum class Name { kLiteral, kRoleName, kRank, kLocalRank, kHost, kStream, kTime };
  struct Part {
    Name name = Name::kLiteral;
    std::string literal;
  };
  static const std::vector<std::pair<std::string_view, Name>>& names();

  std::vector<Part> parts_;
};

// `text` in the colour of the worker, for a terminal.  A local rank always has the same one.
std::string coloured(const std::string& text, LocalRank worker);

}  // namespace distrun
