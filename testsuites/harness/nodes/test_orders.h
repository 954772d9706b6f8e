// The texts that the nodes of a run of tests exchange. Node 0 gives orders; the others report.
//
//     node 0                                        node 1
//       StartHosts ─────────────────────────────────▶
//       ◀──────────────────────────── HostReport [kReady, the program's tests]
//       BeginPart ──────────────────────────────────▶   a part of an attempt (attempt_part.h)
//       ◀──────────────────────────── PartReport, RankReport …
//       PartOrder [kFinish] ────────────────────────▶
//       ◀──────────────────────────── RankFactsTold …
//       EndTests ───────────────────────────────────▶
//
// A part is identified by the key of rank 0 of its attempt. Each text is a JSON object, of ASCII
// characters only. Texts that are not UTF-8, such as the output of a rank, arrive with U+FFFD.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "distrun/result.h"
#include "testsuites/harness/run/attempt_part.h"

namespace distrun {

// Orders.
struct StartHosts {};
struct HostTask {
  enum class Kind { kReplace, kEnd, kPassedATest };
  Kind kind;
  std::size_t program = 0;
};
struct BeginPart {
  PartOptions options;  // Without store_host: each node knows node 0's address for itself.
};
struct PartOrder {
  enum class Kind { kAsk, kEnd, kLook, kFinish, kInterrupt, kHostLost, kDrop };
  Kind kind;
  std::uint64_t key = 0;
  std::vector<int> ranks = {};  // Of kAsk and kEnd.
};
struct EndTests {};
using TestOrder = std::variant<StartHosts, HostTask, BeginPart, PartOrder, EndTests>;

// Reports.
struct HostReport {
  enum class Kind { kReady, kLost, kGivenUp };
  Kind kind;
  std::size_t program = 0;
  std::string text = {};  // kReady: its tests (test_list_json.h). Others: why.
};
struct RankReport {
  enum class Kind { kNoted, kPassed, kSkipped, kFailed, kAnswered, kCollective };
  Kind kind;
  std::uint64_t key = 0;
  int rank = 0;
  std::string text = {};  // Of kCollective.
};
struct PartReport {
  enum class Kind { kReachedHost, kSeen, kLooked };
  Kind kind;
  std::uint64_t key = 0;
  PartView view = {};
};
struct RankFactsTold {  // After kFinish or kInterrupt: one for each rank, in any order.
  std::uint64_t key = 0;
  int rank = 0;
  RankFacts facts;
};
struct NodeSignaled {  // The user or an engine ends the tests.
  int signal = 0;
};
using TestReport = std::variant<HostReport, RankReport, PartReport, RankFactsTold, NodeSignaled>;

std::string to_text(const TestOrder& order);
std::string to_text(const TestReport& report);

// Fail with kProtocol if the text is something else.
Result<TestOrder> parse_test_order(std::string_view text);
Result<TestReport> parse_test_report(std::string_view text);

}  // namespace distrun
