#include "evidence/nccl/ras_report.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/parse_number.h"
#include "common/text/printable.h"
#include "common/text/rank_list.h"
#include "common/text/split.h"
#include "common/text/text_cut.h"
#include "common/text/valid_utf8.h"

namespace distrun {

namespace {

constexpr std::string_view kRasServer = "SERVER PROTOCOL ";
constexpr std::uint16_t kRasPort = 28028;
constexpr std::size_t kFindingsMax = 8;
constexpr std::size_t kFindingBytesMax = 400;
constexpr std::size_t kStatementsMax = 8;  // Of a topic.
constexpr std::size_t kProcessesMax = 4;

std::optional<int> whole_number(std::string_view text) {
  const auto value = parse_number<int>(text, 0);
  return value ? std::optional(*value) : std::nullopt;
}

// Removes `prefix` from the beginning of `text`, if it is there.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Removes everything up to the first `end`, which is removed too, and returns it; all of `text` if
// it has no `end`.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const std::string_view taken = text.substr(0, text.find(end));
  text.remove_prefix(std::min(taken.size() + end.size(), text.size()));
  return taken;
}

struct RasMember {          // A rank or a process that RAS names.
  std::optional<int> rank;  // In its communicator.
  std::optional<int> pid;
  std::string_view node, gpu;  // "GPU 0"
};

using RasMembers = std::vector<RasMember>;

// What RAS says of some ranks: "Rank 3 reported System error".
struct RasStatement {
  std::size_t count = 0;       // Of ranks. 0: those that are named.
  std::string_view predicate;  // "reported System error"; may be empty.
  RasMembers members;
};

struct RasTopic {  // A problem, and statements about it.
  std::string_view text;
  std::vector<RasStatement> statements;
};

struct RasCommunicator {
  std::string_view hash;
  std::optional<int> size;
};

struct RasFinding {
  std::optional<RasCommunicator> communicator;
  std::string_view kind;  // "INCOMPLETE"
  std::vector<RasTopic> topics;
};

// "process 4711 on node 10.0.0.1 managing GPU 0"
void read_process(std::string_view text, RasMember& member) {
  member.pid = whole_number(take_until(text, " on node "));
  member.node = take_until(text, " ");
}

class RasReader {
 public:
  explicit RasReader(std::string_view answer) {
    auto lines = split(answer, '\n');
    lines.pop_back();  // It has no end.
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool is_last = i + 1 == lines.size();
      const bool is_title = !is_last && lines[i + 1].starts_with("===");
      if (is_title) {
        if (lines[i] == "Errors") is_after_table_ = true;
        if (lines[i] == "Warnings") is_after_table_ = is_whole_ = true;
        ++i;
      } else if (is_after_table_) {
        const bool may_be_title = is_last && !is_whole_;
        if (!may_be_title) add(lines[i]);
      } else if (lines[i].starts_with("ERROR")) {
        is_refused_ = true;
        findings_.push_back({.communicator = {}, .kind = lines[i], .topics = {}});
      } else {
        add_row(lines[i]);
      }
    }
  }

  bool is_whole() const { return is_whole_; }
  bool is_refused() const { return is_refused_; }  // RAS does not know a command.
  const std::vector<RasFinding>& findings() const { return findings_; }

 private:
  // Of the table: group, communicators, nodes, ranks of each node, ranks of each communicator, …
  void add_row(std::string_view line) {
    const auto words = words_of(line, ' ');
    constexpr std::size_t kColumns = 8;
    if (words.size() != kColumns) return;
    if (const auto size = whole_number(words[4])) sizes_[words[0]] = *size;
  }

  void add(std::string_view line) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(indent);
    if (line.empty()) return;
    if (indent == 0) return begin_finding(line);
    if (findings_.empty()) findings_.emplace_back();
    add_to(findings_.back(), line);
  }

  // "#0-1 (cf264af53edbe986) ERROR" or "DEAD"
  void begin_finding(std::string_view line) {
    RasFinding& finding = findings_.emplace_back();
    finding.kind = line;
    std::string_view rest = line;
    if (!take(rest, "#")) return;
    const auto size = sizes_.find(take_until(rest, "-"));
    take_until(rest, "(");
    const std::string_view hash = take_until(rest, ") ");
    if (hash.empty() || rest.empty()) return;
    finding.communicator = {
        .hash = hash, .size = size == sizes_.end() ? std::nullopt : std::optional(size->second)};
    finding.kind = rest;
  }

  static void add_to(RasFinding& finding, std::string_view line) {
    std::string_view rest = line;
    if (take(rest, "Rank ")) {
      std::string_view what = take_until(rest, " -- ");
      RasMember member{
          .rank = whole_number(take_until(what, " ")), .pid = {}, .node = {}, .gpu = {}};
      if (!member.rank) return add_topic(finding, line);
      if (const auto at = rest.find("process "); at != rest.npos) {
        read_process(rest.substr(at + std::string_view("process ").size()), member);
        member.gpu = take_until(rest, " managed by ");
      }
      return what.empty() ? add_member(finding, member)
                          : add_statement(finding, {1, what, {member}});
    }
    if (take(rest, "Process ")) {
      RasMember member;
      read_process(rest, member);
      return member.pid ? add_member(finding, member) : add_topic(finding, line);
    }
    // Before 2.26: "The missing ranks: 1,2".
    if (line.starts_with("The ") && !take_until(rest, ": ").empty() && !rest.empty()) {
      RasMembers members;
      for (const std::string_view one : split(rest, ',')) {
        members.push_back({.rank = whole_number(one), .pid = {}, .node = {}, .gpu = {}});
        if (!members.back().rank) return add_topic(finding, line);
      }
      for (const RasMember& member : members) add_member(finding, member);
      return;
    }
    // "3 ranks reported System error"
    rest = line;
    const auto count = whole_number(take_until(rest, " ranks "));
    if (!count || rest.empty()) return add_topic(finding, line);
    add_statement(finding, {static_cast<std::size_t>(*count), rest, {}});
  }

  static void add_topic(RasFinding& finding, std::string_view text) {
    finding.topics.push_back({text, {}});
  }
  static void add_statement(RasFinding& finding, RasStatement statement) {
    if (finding.topics.empty()) add_topic(finding, "");
    finding.topics.back().statements.push_back(std::move(statement));
  }
  // Of the ranks that the line before counts, if it does.
  static void add_member(RasFinding& finding, const RasMember& member) {
    if (finding.topics.empty() || finding.topics.back().statements.empty()) {
      add_statement(finding, {});
    }
    finding.topics.back().statements.back().members.push_back(member);
  }

  bool is_after_table_ = false, is_whole_ = false, is_refused_ = false;
  std::map<std::string, int, std::less<>> sizes_;  // Of the communicators of a group.
  std::vector<RasFinding> findings_;
};

RasMembers members_of(const RasFinding& finding) {
  RasMembers members;
  for (const RasTopic& topic : finding.topics) {
    for (const RasStatement& statement : topic.statements) {
      members.insert(members.end(), statement.members.begin(), statement.members.end());
    }
  }
  return members;
}

// Of the run. `size`: of the communicator whose rank `member` is.
std::optional<int> rank_of(const RasMember& member, std::optional<int> size,
                           const RasNames& names) {
  const auto known = member.pid ? names.ranks.find(*member.pid) : names.ranks.end();
  if (known != names.ranks.end()) return known->second;
  return size == names.world_size ? member.rank : std::nullopt;
}

class RasWriter {
 public:
  explicit RasWriter(const RasNames& names) : names_(names) {}

  std::string text_of(const RasFinding& finding) {
    size_ = finding.communicator ? finding.communicator->size : std::nullopt;
    std::vector<std::string> topics;
    for (const RasTopic& topic : finding.topics) topics.push_back(text_of(topic));
    std::string text = fmt::format("{}", fmt::join(topics, "; "));
    constexpr std::array<std::string_view, 5> kKinds = {"INCOMPLETE", "DEAD", "ERROR", "TIMEOUT",
                                                        "MISMATCH"};
    const bool is_known = std::find(kKinds.begin(), kKinds.end(), finding.kind) != kKinds.end();
    if (text.empty()) {
      text = finding.kind;
    } else if (!is_known && !finding.kind.empty()) {
      text = fmt::format("{}: {}", finding.kind, text);
    }
    if (!finding.communicator) return text;
    const std::string of = size_ ? fmt::format(" of {} ranks", *size_) : "";
    return fmt::format("communicator{} ({}): {}", of, finding.communicator->hash, text);
  }

 private:
  std::string text_of(const RasTopic& topic) const {
    std::string_view rest = topic.text;
    take(rest, "Communicator ranks have ");
    std::string text(rest);
    // Not of an abbreviation.
    if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
      text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    }
    std::vector<std::string> statements;
    for (const RasStatement& statement : topic.statements) {
      if (statements.size() == kStatementsMax) {
        statements.push_back(fmt::format("{} more", topic.statements.size() - kStatementsMax));
        break;
      }
      statements.push_back(text_of(statement));
    }
    if (statements.empty()) return text;
    return fmt::format("{}{}{}", text, text.empty() ? "" : ": ", fmt::join(statements, ", "));
  }

  std::string text_of(const RasStatement& statement) const {
    const auto& [count, predicate, members] = statement;
    const std::string who = members.empty() || members.size() < count
                                ? fmt::format("{} ranks", count)
                                : text_of(members);
    return predicate.empty() ? who : fmt::format("{} {}", who, predicate);
  }

  std::string text_of(const RasMembers& members) const {
    std::set<int> ranks, in_communicator;
    std::vector<std::string> texts, processes;
    for (const RasMember& member : members) {
      if (const auto rank = rank_of(member, size_, names_)) {
        ranks.insert(*rank);
      } else if (member.rank) {
        in_communicator.insert(*member.rank);
      } else {
        processes.push_back(process(member));
      }
    }
    if (!ranks.empty()) {
      texts.push_back(list_of_ranks({ranks.begin(), ranks.end()}));
      const bool have_many_gpus = size_.value_or(0) > names_.world_size;
      if (have_many_gpus && members.size() == 1 && !members[0].gpu.empty()) {
        texts.back() += fmt::format(" ({})", members[0].gpu);
      }
    }
    if (!in_communicator.empty()) {
      texts.push_back(list_of_ranks({in_communicator.begin(), in_communicator.end()}) +
                      " of the communicator");
      if (members.size() == 1 && members[0].pid) {
        texts.back() += fmt::format(" ({})", process(members[0]));
      }
    }
    for (std::size_t i = 0; i < std::min(processes.size(), kProcessesMax); ++i) {
      texts.push_back(processes[i]);
    }
    if (processes.size() > kProcessesMax) {
      texts.push_back(fmt::format("{} more processes", processes.size() - kProcessesMax));
    }
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  static std::string process(const RasMember& member) {
    return fmt::format("process {} on {}", *member.pid, member.node);
  }

  const RasNames& names_;
  std::optional<int> size_;  // Of the communicator.
};

// The members that communicators lack. Of a communicator whose members are all silent, RAS knows
// nothing: then only the job's finding names them.
class RasMissing {
 public:
  RasMissing(const std::vector<RasFinding>& findings, const RasNames& names) : names_(names) {
    for (const RasFinding& finding : findings) {
      if (!finding.communicator || finding.kind != "INCOMPLETE") continue;
      is_incomplete_ = true;
      for (const RasMember& member : members_of(finding)) add(member, finding.communicator->size);
    }
  }

  // Whether communicators say the same as the job's `finding`.
  bool repeats(const RasFinding& finding) const {
    if (finding.communicator || !is_incomplete_) return false;
    return finding.kind == "TIMEOUT" || (finding.kind == "INCOMPLETE" && has_all_of(finding));
  }

 private:
  void add(const RasMember& member, std::optional<int> size) {
    if (const auto rank = rank_of(member, size, names_)) ranks_.insert(*rank);
    if (member.pid) processes_.emplace(*member.pid, member.node);
  }

  bool has(const RasMember& member) const {
    const auto rank = rank_of(member, std::nullopt, names_);
    if (rank && ranks_.count(*rank) > 0) return true;
    return member.pid && processes_.count({*member.pid, member.node}) > 0;
  }

  // False if `finding` names none.
  bool has_all_of(const RasFinding& finding) const {
    const RasMembers members = members_of(finding);
    return !members.empty() && std::all_of(members.begin(), members.end(),
                                           [this](const RasMember& one) { return has(one); });
  }

  const RasNames& names_;
  bool is_incomplete_ = false;
  std::set<int> ranks_;
  std::set<std::pair<int, std::string_view>> processes_;
};

// Why the report has no end; empty if it has one.
std::string_view missing_end(const RasReader& reader, RasEnd end) {
  if (end == RasEnd::kCut) return "the report of RAS is too long: distrun has read its beginning";
  if (reader.is_whole() || reader.is_refused()) return "";
  if (end == RasEnd::kClosed) return "RAS has ended its report early";
  return "RAS had not finished its report when distrun stopped waiting, perhaps because a process "
         "does not answer";
}

// Cuts twice: making text printable costs time, and makes it longer.
std::string shown(std::string_view text) {
  constexpr std::size_t kBeyond = 8;  // Then the second cut sees that something was cut.
  const std::string valid = valid_utf8(cut_to_bytes(text, kFindingBytesMax + kBeyond));
  return shortened(printable(valid, valid.size()), kFindingBytesMax);
}

}  // namespace

std::string ras_line(std::string_view answer, const RasNames& names, RasEnd end) {
  if (!answer.starts_with(kRasServer)) return "";
  const RasReader reader(answer);
  const RasMissing missing(reader.findings(), names);
  RasWriter writer(names);
  std::vector<std::string> texts;
  std::size_t left_out = 0;
  for (const RasFinding& finding : reader.findings()) {
    if (missing.repeats(finding)) continue;
    if (texts.size() < kFindingsMax) {
      texts.push_back(shown(writer.text_of(finding)));
    } else {
      ++left_out;
    }
  }
  if (left_out > 0) texts.push_back(fmt::format("{} more", left_out));
  const std::string_view no_end = missing_end(reader, end);
  if (!no_end.empty()) texts.emplace_back(no_end);
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool may_be_of_ras(std::string_view answer) {
  const std::size_t size = std::min(answer.size(), kRasServer.size());
  return answer.substr(0, size) == kRasServer.substr(0, size);
}

std::optional<std::uint16_t> ras_port(std::string_view environment) {
  if (environment.empty()) return std::nullopt;
  // As NCCL reads them: of two variables with one name, getenv() finds the first.
  std::optional<std::string_view> enable, address;
  for (std::string_view variable : split(environment, '\0')) {
    if (!enable && take(variable, "NCCL_RAS_ENABLE=")) enable = variable;
    if (!address && take(variable, "NCCL_RAS_ADDR=")) address = variable;
  }
  if (enable && !enable->empty() &&
      std::strtoll(std::string(*enable).c_str(), nullptr, /*base=*/0) != 1) {
    return std::nullopt;
  }
  if (!address) return kRasPort;
  const auto given =
      parse_number<std::uint16_t>(address->substr(address->rfind(':') + 1), /*min=*/1);
  return given ? std::optional(*given) : std::nullopt;
}

}  // namespace distrun
