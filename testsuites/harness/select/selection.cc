#include "testsuites/harness/select/selection.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/edit_distance.h"
#include "common/text/parse_number.h"
#include "common/text/printable.h"
#include "common/text/shell_quote.h"
#include "common/text/words.h"
#include "testsuites/harness/select/name_expression.h"

namespace distrun {

namespace {

constexpr std::size_t kShownBytes = 200;

Error wrong(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

bool means(std::string_view name, std::string_view id) {
  return id.starts_with(name) &&
         (id.size() == name.size() || id[name.size()] == '.' || name.ends_with('.'));
}

// All names that select tests: suites, classes, ids, in the order of the list.
std::vector<std::string_view> names_in(const std::vector<TestInfo>& tests) {
  std::vector<std::string_view> names;
  std::set<std::string_view> known;
  for (const TestInfo& test : tests) {
    const std::string_view id = test.id;
    const TestIdParts parts = parts_of(id);
    const std::size_t suite = parts.suite.size(), test_class = suite + 1 + parts.test_class.size();
    for (const std::size_t bytes : {suite, test_class, id.size()}) {
      if (known.insert(id.substr(0, bytes)).second) names.push_back(id.substr(0, bytes));
    }
  }
  return names;
}

// Small if `candidate` contains the name or is spelt nearly the same; nullopt if it is not similar.
std::optional<std::size_t> distance(const std::string& name, std::string_view candidate) {
  const std::string other = ascii_lower(candidate);
  if (other.find(name) != std::string::npos) return 0;
  const std::size_t far = edit_distance(name, other);
  if (far > std::max<std::size_t>(1, name.size() / 4)) return std::nullopt;
  return far;
}

// The nearest names; among equally near ones the shortest, which select most tests.
std::vector<std::string_view> near_matches(std::string_view name,
                                           const std::vector<TestInfo>& tests) {
  constexpr std::size_t kShown = 3;
  const std::string small = ascii_lower(name.substr(0, kShownBytes));
  std::vector<std::pair<std::size_t, std::string_view>> candidates;
  for (const std::string_view candidate : names_in(tests)) {
    if (const auto far = distance(small, candidate)) candidates.emplace_back(*far, candidate);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.size()) < std::pair(b.first, b.second.size());
  });
  std::vector<std::string_view> nearest;
  for (std::size_t i = 0; i < std::min(kShown, candidates.size()); ++i) {
    nearest.push_back(candidates[i].second);
  }
  return nearest;
}

// "gloo.*", as in a shell, means "gloo".
std::string_view without_stars(std::string_view name) {
  const auto last = name.find_last_not_of(".*");
  return last == std::string_view::npos ? name : name.substr(0, last + 1);
}

std::vector<std::string_view> meant_by(std::string_view name, const std::vector<TestInfo>& tests) {
  const std::string_view beginning = without_stars(name);
  const bool is_there = std::any_of(
      tests.begin(), tests.end(), [&](const TestInfo& test) { return means(beginning, test.id); });
  return is_there ? std::vector{beginning} : near_matches(name, tests);
}

Error unknown(const std::string& name, const std::vector<TestInfo>& tests) {
  const auto near = meant_by(name, tests);
  const std::string hint = near.empty() ? "--list shows all tests"
                                        : fmt::format("did you mean {}?", fmt::join(near, " or "));
  return wrong(fmt::format("no test is called '{}': {}", printable(name, kShownBytes), hint));
}

Result<void> keep_named(std::vector<TestInfo>& tests, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  for (const std::string& name : names) {
    if (std::none_of(tests.begin(), tests.end(),
                     [&](const TestInfo& test) { return means(name, test.id); })) {
      return unknown(name, tests);
    }
  }
  std::erase_if(tests, [&](const TestInfo& test) {
    return std::none_of(names.begin(), names.end(),
                        [&](const auto& name) { return means(name, test.id); });
  });
  return {};
}

std::uint64_t hash_of(std::string_view id) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : id) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

// Keeps the first filter that leaves no test, as why_none.
struct Sieve {
  SelectedTests selected;

  template <class Means>
  void keep(const std::string& filter, const Means& means) {
    auto& tests = selected.tests;
    const std::size_t before = tests.size();
    std::erase_if(tests, [&](const TestInfo& test) { return !means(test); });
    if (before == 0 || !tests.empty()) return;
    selected.why_none =
        fmt::format("{} matches none of {} test{}", filter, before, before == 1 ? "" : "s");
  }
};

}  // namespace

Result<TestShard> parse_shard(std::string_view text) {
  constexpr int kCountMax = 1'000'000;
  const std::size_t slash = text.find('/');
  const auto context = fmt::format("--shard {}", printable(text, kShownBytes));
  if (slash == std::string_view::npos) {
    return wrong(context + ": expected I/N, for example 1/3");
  }
  const auto count = parse_number<int>(text.substr(slash + 1), 1, kCountMax);
  if (!count) return count.error().with_context(context);
  const auto index = parse_number<int>(text.substr(0, slash), 1, *count);
  if (!index) return index.error().with_context(context);
  return TestShard{*index, *count};
}

int shard_of(std::string_view id, int count) {
  return static_cast<int>(hash_of(id) % static_cast<std::uint64_t>(count)) + 1;
}

Result<SelectedTests> select_tests(std::vector<TestInfo> tests, const TestSelection& selection) {
  if (const auto kept = keep_named(tests, selection.names); !kept) return kept.error();
  Sieve sieve;
  sieve.selected.why_none = tests.empty() ? "there are no tests" : "";
  sieve.selected.tests = std::move(tests);
  if (!selection.expression.empty()) {
    const auto expression = NameExpression::parse(selection.expression);
    if (!expression) return expression.error();
    sieve.keep("-k " + shell_quoted(printable(selection.expression, kShownBytes)),
               [&](const TestInfo& test) { return expression->matches(test.id); });
  }
  if (selection.ids) {
    sieve.keep("--failed", [&](const TestInfo& test) { return selection.ids->contains(test.id); });
  }
  const TestShard& shard = selection.shard;
  sieve.keep(fmt::format("--shard {}/{}", shard.index, shard.count),
             [&](const TestInfo& test) { return shard_of(test.id, shard.count) == shard.index; });
  return std::move(sieve.selected);
}

}  // namespace distrun
