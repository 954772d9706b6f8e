// How the ranks of a run find each other: by the variables that the launcher set.
//
//     RANK WORLD_SIZE                 who this is, and how many there are
//     MASTER_ADDR MASTER_PORT         where the store listens
//     TORCHELASTIC_USE_AGENT_STORE    True: the launcher hosts the store, every rank is
//                                     its client; otherwise rank 0 hosts it
//
// The same as `env://` in Python (torch/distributed/rendezvous.py).
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/environment.h"

namespace distrun {

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int world_size;
};

// Throws c10::Error where a variable is missing or malformed; it names the variable.
// Throws c10d::DistError where the store cannot be reached within `timeout`.
Rendezvous rendezvous_by_environment(const Environment& environment,
                                     std::chrono::milliseconds timeout);

}  // namespace distrun
