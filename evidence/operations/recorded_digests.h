// RecordedDigests are the digests of an earlier run's collectives, to compare a run with.
//
//     file.write(recorded_header(world_size));                    // The earlier run.
//     file.write(recorded_line(rank, operation));
//
//     auto recorded = RecordedDigests::read(text);                // A later run.
//     if (!recorded) return recorded.error();                     // "line 3: is not …"
//     for (const auto& all : table.take_ended()) {
//       if (const auto found = recorded->compare(all)) report(text_of(*found));
//     }
//     // rank 2 received other values than in the recorded run in all_reduce, number 12 of group 0
//     // (Float [1000]), in elements 63 to 125; the inputs are the same
//
// Collectives correspond if they have the same group and number.  Sends and receives are not
// recorded.  A collective takes about 200 bytes of memory for each rank, until it is compared.
//
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/operations/digest.h"
#include "distrun/result.h"
#include "evidence/operations/collective_table.h"

namespace distrun {

// Lines of the file, as JSON, without newline.
std::string recorded_header(int world_size);
// Requires a collective that has ended.
std::string recorded_line(int rank, const Operation& operation);

// The first difference between the ranks and the recorded run.
struct RecordDifference {
  enum class Kind {
    kCall,     // They called another collective, or with another dtype or other sizes.
    kInputs,   // They passed other values.
    kOutputs,  // They received other values.
  };
  Kind kind = Kind::kOutputs;
  Operation operation;  // Of this run.
  std::vector<int> ranks;
  std::string recorded_call;             // With kCall.
  std::optional<ElementRange> elements;  // With kOutputs: they contain the differences.
  bool same_inputs = false;              // With kOutputs: those of all ranks are known to be.
};

class RecordedDigests {
 public:
  // Fails with kProtocol for a text that recorded_header() and recorded_line() did not write.  An
  // incomplete last line is ignored: the recorded run may have been killed.  A header starts again,
  // as after a restart of the recorded run.
  static Result<RecordedDigests> read(std::string_view text);

  int world_size() const { return world_size_; }

  // Requires that all ranks have ended the collective.  nullopt: they did the same, or the recorded
  // run did not get so far.
  std::optional<RecordDifference> compare(const CollectiveOfRanks& all);

  // Of how many collectives the recorded run has values, as it has none of a barrier, and of how
  // many they have been compared.
  std::uint64_t recorded() const;
  std::uint64_t compared() const { return compared_; }

 private:
  // Rank, group and number.  A program that creates a group of the same name again has several.
  using Key = std::tuple<int, std::string, std::uint32_t>;
  struct Entry {
    std::uint32_t call = 0;  // Its place in `calls_`.
    std::optional<std::uint64_t> inputs;
    std::optional<BlockDigests> outputs;
  };

  Result<void> add(std::string_view line);
  std::uint32_t number_of_call(const std::string& call);
  std::optional<Entry> take(int rank, const Operation& operation);

  int world_size_ = 0;
  std::multimap<Key, Entry> entries_;
  std::map<std::string, std::uint32_t> calls_;
  std::vector<std::string> call_texts_;
  std::map<std::string, std::map<int, std::uint64_t>> counts_;  // By group and rank: with values.
  std::uint64_t compared_ = 0;
};

std::string text_of(const RecordDifference& difference);

}  // namespace distrun
