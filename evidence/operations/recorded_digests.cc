#include "evidence/operations/recorded_digests.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/rank_list.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "distrun-digests-1";

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

std::string hex(const BlockDigests& digests) {
  std::string text;
  for (const std::uint32_t block : digests) text += fmt::format("{:08x}", block);
  return text;
}

// `text` has `digits` hexadecimal digits from `at` on.
std::uint64_t number_in(const std::string& text, std::size_t at, std::size_t digits) {
  const std::string part = text.substr(std::min(at, text.size()), digits);
  const bool is_hex =
      part.size() == digits && part.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex) throw std::out_of_range("a digest is malformed");
  return std::stoull(part, nullptr, 16);
}

BlockDigests digests_in(const std::string& text) {
  BlockDigests digests{};
  for (std::size_t block = 0; block < kDigestBlocks; ++block) {
    digests[block] = static_cast<std::uint32_t>(number_in(text, 8 * block, 8));
  }
  return digests;
}

// "all_reduce (Float [1000])"
std::string call_of(const std::string& op, const std::string& dtype, const std::string& sizes) {
  return dtype.empty() ? op : fmt::format("{} ({} {})", op, dtype, sizes);
}
std::string call_of(const Operation& operation) {
  return call_of(operation.op, operation.dtype, operation.sizes);
}

// Adds the elements of the blocks that differ.
void widen(std::optional<ElementRange>& range, const Operation& operation,
           const BlockDigests& recorded) {
  if (operation.element_bytes == 0) return;
  for (std::size_t block = 0; block < kDigestBlocks; ++block) {
    if ((*operation.output_digests)[block] == recorded[block]) continue;
    const auto [first, last] =
        elements_of_block(block, operation.elements, operation.element_bytes);
    if (!range) range = ElementRange{first, last};
    range->first = std::min(range->first, first);
    range->last = std::max(range->last, last);
  }
}

}  // namespace

std::string recorded_header(int world_size) {
  return Json{{"format", kFormat}, {"world_size", world_size}}.dump();
}

std::string recorded_line(int rank, const Operation& operation) {
  Json line{{"rank", rank},       {"group", operation.group}, {"number", operation.sequence},
            {"op", operation.op}, {"dtype", operation.dtype}, {"sizes", operation.sizes}};
  if (operation.input_digest) line["inputs"] = hex(*operation.input_digest);
  if (operation.output_digests) line["outputs"] = hex(*operation.output_digests);
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RecordedDigests> RecordedDigests::read(std::string_view text) {
  RecordedDigests recorded;
  std::size_t number = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos;
       begin = end + 1) {
    ++number;
    if (const auto added = recorded.add(text.substr(begin, end - begin)); !added) {
      return added.error().with_context(fmt::format("line {}", number));
    }
  }
  if (number == 0) return Error{ErrorKind::kProtocol, "is empty; write it with --save-digests"};
  return recorded;
}

Result<void> RecordedDigests::add(std::string_view line) {
  try {
    const auto json = Json::parse(line);
    if (world_size_ == 0 || json.contains("format")) {
      if (json.at("format") != kFormat) throw std::out_of_range("another format");
      *this = {};
      world_size_ = required_number<int>(json.at("world_size"));
      if (world_size_ < 1) throw std::out_of_range("no ranks");
      return {};
    }
    Entry entry{.call = number_of_call(call_of(json.at("op").get<std::string>(),
                                               json.at("dtype").get<std::string>(),
                                               json.at("sizes").get<std::string>())),
                .inputs = {},
                .outputs = {}};
    if (json.contains("inputs")) entry.inputs = number_in(json["inputs"], 0, 16);
    if (json.contains("outputs")) entry.outputs = digests_in(json["outputs"]);
    const Key key{required_number<int>(json.at("rank")), json.at("group").get<std::string>(),
                  required_number<std::uint32_t>(json.at("number"))};
    entries_.emplace(key, entry);
    if (entry.inputs || entry.outputs) ++counts_[std::get<std::string>(key)][std::get<int>(key)];
    return {};
  } catch (const std::exception&) {
    return Error{ErrorKind::kProtocol, "was not written by --save-digests"};
  }
}

std::uint64_t RecordedDigests::recorded() const {
  std::uint64_t all = 0;
  for (const auto& [group, by_rank] : counts_) {
    std::uint64_t most = 0;  // Of one rank.
    for (const auto& [rank, count] : by_rank) most = std::max(most, count);
    all += most;
  }
  return all;
}

std::uint32_t RecordedDigests::number_of_call(const std::string& call) {
  const auto [place, is_new] =
      calls_.try_emplace(call, static_cast<std::uint32_t>(call_texts_.size()));
  if (is_new) call_texts_.push_back(call);
  return place->second;
}

std::optional<RecordedDigests::Entry> RecordedDigests::take(int rank, const Operation& operation) {
  // Of several, the first that was written.
  const Key key{rank, operation.group, operation.sequence};
  const auto found = entries_.lower_bound(key);
  if (found == entries_.end() || found->first != key) return std::nullopt;
  return entries_.extract(found).mapped();
}

std::optional<RecordDifference> RecordedDigests::compare(const CollectiveOfRanks& all) {
  using Kind = RecordDifference::Kind;
  std::optional<RecordDifference> first;
  bool is_compared = false;
  std::size_t same_inputs = 0;
  const auto differs = [&first](Kind kind, int rank,
                                const Operation& operation) -> RecordDifference* {
    if (first && first->kind < kind) return nullptr;
    if (!first || kind < first->kind)
      first = RecordDifference{.kind = kind, .operation = operation};
    first->ranks.push_back(rank);
    return &*first;
  };
  for (const auto& [rank, operation] : all.by_rank) {
    const auto entry = take(rank, operation);
    if (!entry) continue;
    const std::string& recorded_call = call_texts_[entry->call];
    if (call_of(operation) != recorded_call) {
      if (auto* found = differs(Kind::kCall, rank, operation)) found->recorded_call = recorded_call;
      continue;
    }
    if (entry->inputs && operation.input_digest) {
      is_compared = true;
      if (*entry->inputs != *operation.input_digest) {
        differs(Kind::kInputs, rank, operation);
        continue;
      }
      ++same_inputs;
    }
    if (!entry->outputs || !operation.output_digests) continue;
    is_compared = true;
    if (*entry->outputs == *operation.output_digests) continue;
    if (auto* found = differs(Kind::kOutputs, rank, operation)) {
      widen(found->elements, operation, *entry->outputs);
    }
  }
  if (is_compared) ++compared_;
  if (first) {
    first->same_inputs = same_inputs == static_cast<std::size_t>(first->operation.group_size);
  }
  return first;
}

std::string text_of(const RecordDifference& difference) {
  const std::string ranks = list_of_ranks(difference.ranks);
  const std::string place = text_of(difference.operation);
  switch (difference.kind) {
    case RecordDifference::Kind::kCall:
      return fmt::format("{} called {}; the recorded run called {} there", ranks, place,
                         difference.recorded_call);
    case RecordDifference::Kind::kInputs:
      return fmt::format("{} passed other values than in the recorded run to {}", ranks, place);
    case RecordDifference::Kind::kOutputs:
      break;
  }
  std::string text =
      fmt::format("{} received other values than in the recorded run in {}", ranks, place);
  if (difference.elements) {
    text += fmt::format(", in elements {} to {}", difference.elements->first,
                        difference.elements->last - 1);
  }
  if (difference.same_inputs) text += "; the inputs are the same";
  return text;
}

}  // namespace distrun
