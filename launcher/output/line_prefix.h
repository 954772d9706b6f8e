// PrefixTemplate creates the prefix of a worker's lines on the console.
//
//     auto prefix = PrefixTemplate::parse("[${role_name}${local_rank}]:");
//     if (!prefix) return prefix.error();     // "unknown variable ${rnak}; use …"
//     prefix->text({.role_name = "default", .local_rank = 3}, "")      // [default3]:
//
// The syntax is that of Python's string.Template, as in torchrun: a value replaces `$name` or
// `${name}`, and `$$` is a dollar sign, as is any other.
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
  PrefixTemplate() = default;

  // Fails with kInvalidArgument for an unknown name, listing the known ones, or an unclosed brace.
  static Result<PrefixTemplate> parse(std::string_view text);

  // "[${role_name}${local_rank}]:"
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

// `text` in the worker's colour, for a terminal. Depends only on the local rank.
std::string coloured(const std::string& text, LocalRank worker);

}  // namespace distrun
