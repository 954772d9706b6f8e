#include "launcher/engines/fact_reader.h"

#include <utility>

#include <fmt/format.h>

#include "common/text/parse_number.h"

namespace distrun {

FactReader::FactReader(const Environment& environment, std::string engine)
    : environment_(environment), engine_(std::move(engine)) {}

EngineFact<int> FactReader::number(const char* variable, int min) {
  auto fact = number_if_set(variable, min);
  if (!fact.value) {
    fail(variable, {ErrorKind::kInvalidArgument,
                    fmt::format("is not set, although {} started this process", engine_)});
  }
  return fact;
}

EngineFact<int> FactReader::number_if_set(const char* variable, int min) {
  const auto given = text(variable);
  if (!given) return {};
  const auto value = parse_number<int>(*given, min, kTasksMax);
  if (value) return {*value, variable};
  fail(variable, value.error());
  return {0, variable};  // No second error.
}

void FactReader::check_index(const EngineFact<int>& index, const EngineFact<int>& count) {
  if (!index.value || !count.value || *index.value < *count.value) return;
  fail(index.source,
       {ErrorKind::kInvalidArgument,
        fmt::format("{} is not less than {} {}", *index.value, count.source, *count.value)});
}

void FactReader::check_indices(const EngineFacts& facts) {
  check_index(facts.task, facts.tasks);
  check_index(facts.local_task, facts.local_tasks);
}

std::optional<std::string> FactReader::text(const char* variable) const {
  auto value = environment_.get(variable);
  return value && !value->empty() ? value : std::nullopt;
}

void FactReader::fail(const std::string& variable, const Error& error) {
  if (!error_) error_ = error.with_context(variable);
}

void conclude_one_node(EngineFacts& facts) {
  if (!facts.local_tasks.value || *facts.local_tasks.value != *facts.tasks.value) return;
  const std::string source = facts.tasks.source + ", " + facts.local_tasks.source;
  facts.nodes = {1, source};
  facts.node = {0, source};
  facts.most_tasks = facts.local_tasks;
  facts.address = {"127.0.0.1", source};
}

}  // namespace distrun
