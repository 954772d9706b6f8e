// How the ranks of a run find each other: as an init_method says, or by the variables that the
// launcher set.
//
//     RANK WORLD_SIZE                 who this is, and how many there are
//     DISTRUN_INIT_METHOD             the init_method, where the program names none
//
// env://, and where no init_method is named at all: in a TCP store.
//
//     MASTER_ADDR MASTER_PORT         where the store listens
//     TORCHELASTIC_USE_AGENT_STORE    True: the launcher hosts the store, every rank is
//                                     its client; otherwise rank 0 hosts it
//
// file:///absolute/path: in a file that all ranks can write (file_url.h says which paths can be
// named).  It must be fresh, that is empty or not there, for every run.  It stays in use until the
// process ends: the last rank that ends well removes it, and after a crash it stays, unless the
// launcher made it, which removes it in any case (`distrun launch --store file:PATH`).
//
// The same as in Python (torch/distributed/rendezvous.py), which knows DISTRUN_INIT_METHOD only as
// far as a program hands it on:
//
//     dist.init_process_group("gloo", init_method=os.environ.get("DISTRUN_INIT_METHOD"),
//                             rank=int(os.environ["RANK"]),
//                             world_size=int(os.environ["WORLD_SIZE"]))
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/os/environment.h"

namespace distrun {

// What a program says of itself; -1: nothing.
struct WorldPlace {
  int rank = -1;
  int world_size = -1;
};

// The same, and what it does not say as RANK and WORLD_SIZE say it.
// Throws c10::ValueError where what is said makes no sense, c10::Error where a variable is missing
// or malformed, and names it.
WorldPlace place_in(const Environment& environment, const WorldPlace& said);

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int world_size;
};

// An empty `init_method` is DISTRUN_INIT_METHOD's, or else env://.  What is `said` goes before the
// variables.
// Throws what place_in() does, and c10::Error where the init_method is not known or names a folder
// that is not there; it names the variable.
// Throws c10d::DistError where the store cannot be reached within `timeout`.
Rendezvous rendezvous(const Environment& environment, const std::string& init_method,
                      std::chrono::milliseconds timeout, const WorldPlace& said = {});

}  // namespace distrun
