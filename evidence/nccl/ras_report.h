// ras_line turns a report of NCCL's RAS into one line: errors and warnings, with the ranks that RAS
// names.
//
//     const RasNames names{.ranks = {{4711, 2}}, .world_size = 4};     // pid, rank
//     ras_line(answer, names)
//     // communicator of 4 ranks (cf264af53edbe986): missing communicator data from 1 rank: rank 2
//
// RAS (reliability, availability, serviceability) is a thread in each process that uses NCCL 2.24
// or newer. The threads of a job know each other, and each of them answers a client with the state
// of the whole job. An answer is a text for users, and differs between versions:
//
//     SERVER PROTOCOL 2                       answers to the commands before STATUS
//     OK
//     …                                       versions, and a table of the communicators
//     Errors
//     ======
//
//     #0-1 (cf264af53edbe986) INCOMPLETE      the group of communicators, the number in it, a hash
//       …
//     Warnings
//     ========
//     …
//
// So a line that is not known here is passed through. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace distrun {

struct RasNames {
  std::map<pid_t, int> ranks;  // Empty if processes of other machines may have the same pids.
  int world_size = 0;          // In a communicator of all ranks, a rank has its number of the run.
};

enum class RasEnd {
  kClosed,   // RAS has closed the connection.
  kWaiting,  // distrun has stopped waiting.
  kCut,      // distrun has stopped reading, because the answer is too long.
};

// Empty if RAS has found nothing, and if `answer` is not an answer of RAS. `answer` may be the
// beginning of one. At most 8 findings of 400 printable bytes.
std::string ras_line(std::string_view answer, const RasNames& names, RasEnd end = RasEnd::kClosed);

// False if no answer of RAS starts with `answer`.
bool may_be_of_ras(std::string_view answer);

// The port at which RAS listens in a process with these variables, as in /proc/PID/environ. Empty
// if RAS is switched off, if NCCL_RAS_ADDR has no port, and if `environment` is empty: /proc gives
// an empty text if the variables may not be read.
std::optional<std::uint16_t> ras_port(std::string_view environment);

}  // namespace distrun
