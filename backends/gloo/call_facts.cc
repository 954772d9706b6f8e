#include "backends/gloo/call_facts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <c10/util/StringUtil.h>

#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

constexpr char kEndOfName = '\x1f', kEndOfFact = '\x1e';

std::optional<std::string> value_of(const CallFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(),
                                  [&](const CallFact& one) { return one.name == name; });
  if (found == facts.end()) return std::nullopt;
  return found->value;
}

// "the reduce op is SUM on ranks 0, 2 and MAX on rank 1"; empty if all ranks agree.
std::string values_by_rank(const std::vector<CallFacts>& facts, const std::vector<int>& ranks,
                           const std::string& name) {
  std::vector<std::pair<std::string, std::vector<int>>> ranks_by_value;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const std::string value = value_of(facts[i], name).value_or("none");
    auto place = std::find_if(ranks_by_value.begin(), ranks_by_value.end(),
                              [&](const auto& one) { return one.first == value; });
    if (place == ranks_by_value.end()) place = ranks_by_value.insert(place, {value, {}});
    place->second.push_back(ranks[i]);
  }
  if (ranks_by_value.size() < 2) return "";
  std::vector<std::string> parts;
  for (auto& [value, its_ranks] : ranks_by_value) {
    std::sort(its_ranks.begin(), its_ranks.end());
    parts.push_back(value + " on " + list_of_ranks(its_ranks));
  }
  return "the " + name + " is " + c10::Join(" and ", parts);
}

}  // namespace

std::string to_text(const CallFacts& facts) {
  std::string text;
  for (const CallFact& one : facts) text += one.name + kEndOfName + one.value + kEndOfFact;
  return text;
}

CallFacts to_facts(std::string_view text) {
  CallFacts facts;
  while (true) {
    const auto name = text.find(kEndOfName), value = text.find(kEndOfFact);
    if (name == text.npos || value == text.npos || value < name) return facts;
    facts.push_back(
        {std::string(text.substr(0, name)), std::string(text.substr(name + 1, value - name - 1))});
    text.remove_prefix(value + 1);
  }
}

// FNV-1a.
std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

std::string disagreement(const std::vector<CallFacts>& facts, const std::vector<int>& ranks) {
  std::vector<std::string> names, differences;
  for (const CallFacts& its : facts) {
    for (const CallFact& one : its) {
      if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    }
  }
  for (const std::string& name : names) {
    std::string difference = values_by_rank(facts, ranks, name);
    if (difference.empty()) continue;
    differences.push_back(std::move(difference));
    if (name == names.front()) break;
  }
  return c10::Join("; ", differences);
}

std::string disagreement(const std::vector<Exchange>& exchanges, const std::vector<int>& ranks) {
  std::vector<std::string> differences;
  for (std::size_t from = 0; from < exchanges.size(); ++from) {
    for (std::size_t to = 0; to < exchanges.size(); ++to) {
      const auto sent = exchanges[from].sent[to], expected = exchanges[to].expected[from];
      if (sent == expected) continue;
      differences.push_back(c10::str("rank ", ranks[from], " sends ", sent, " numbers to rank ",
                                     ranks[to], ", which expects ", expected));
    }
  }
  return c10::Join("; ", differences);
}

}  // namespace distrun::internal
