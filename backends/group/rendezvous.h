// How the ranks of a run find each other: by an init_method, or by the variables that the launcher
// sets.  What users see of it is in distrun/process_group.h.
//
//     const Rendezvous found = rendezvous(Environment::from(environ), "", std::chrono::minutes(1));
//     found.store->set("key", "value");
//
// As in torch/distributed/rendezvous.py.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "common/os/environment.h"

namespace c10d {
class Store;
}

namespace distrun::internal {

// What a program says of itself.
struct GivenRank {
  std::optional<int> rank;
  std::optional<int> world_size;
};

struct RankInWorld {
  int rank;
  int world_size;
};

// What was not given is read from RANK and WORLD_SIZE.
// Throws c10::ValueError if the given numbers make no sense, and c10::Error if a variable is
// missing or malformed; the error names it.
RankInWorld rank_in_world(const Environment& environment, const GivenRank& given);

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int world_size;
};

// An empty `init_method` is that of DISTRUN_INIT_METHOD, or else env://.
// Throws what rank_in_world() throws, c10::Error if the init_method is not supported or names a
// folder that does not exist, and c10d::DistError if the store cannot be reached within `timeout`.
Rendezvous rendezvous(const Environment& environment, const std::string& init_method,
                      std::chrono::milliseconds timeout, const GivenRank& given = {});

}  // namespace distrun::internal
