#include "backends/shm/host/call_facts.h"

#include <cstddef>
#include <iterator>

#include "backends/shm/host/reduction.h"
#include "backends/shm/host/text_of.h"

namespace distrun::shm {

namespace {

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::kBarrier:
      return "barrier";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kAllReduce:
      return "all_reduce";
    case CallKind::kReduce:
      return "reduce";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kGather:
      return "gather";
    case CallKind::kScatter:
      return "scatter";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kAllToAll:
      return "all_to_all";
    case CallKind::kNone:
      break;
  }
  return "an unknown call";
}

const char* name_of(Reduction reduction) {
  constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"};
  const auto index = static_cast<std::size_t>(reduction);
  return index < std::size(kNames) ? kNames[index] : "an unknown reduction";
}

const char* name_of(Element element) {
  constexpr const char* kNames[] = {"bool",   "uint8",        "int8",          "int16",
                                    "int32",  "int64",        "uint16",        "uint32",
                                    "uint64", "half",         "bfloat16",      "float",
                                    "double", "complex half", "complex float", "complex double"};
  const auto index = static_cast<std::size_t>(element);
  return index < std::size(kNames) ? kNames[index] : "an unknown dtype";
}

}  // namespace

std::string described(const CallFacts& facts) {
  std::string text =
      text_of("call ", facts.number, ", ", name_of(static_cast<CallKind>(facts.kind)));
  const auto kind = static_cast<CallKind>(facts.kind);
  if (kind != CallKind::kBarrier && kind != CallKind::kAllToAll) {
    text += text_of(" of ", facts.bytes, " bytes");
  }
  if (facts.element != kAnyElement) {
    text += text_of(" of ", name_of(static_cast<Element>(facts.element)), " with ",
                    name_of(static_cast<Reduction>(facts.reduction)));
  }
  if (facts.root >= 0) text += text_of(", root ", facts.root);
  return text;
}

bool is_same_call(CallFacts mine, const CallFacts& theirs) {
  if (mine.kind == static_cast<std::uint8_t>(CallKind::kAllToAll)) mine.bytes = theirs.bytes;
  return mine == theirs;
}

}  // namespace distrun::shm
