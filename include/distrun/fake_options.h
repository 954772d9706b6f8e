// Options of the backend "fake" (distrun/fake.h).
//
//     const auto options = c10::make_intrusive<FakeOptions>();
//     options->error_on_collective = true;
//     init_process_group({.backend = "fake", .backend_options = options});
//
// A separate header, because LibTorch's header of backends takes seconds to compile.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// For InitOptions::backend_options and GroupOptions::backend_options, which copy them.
struct FakeOptions : c10d::Backend::Options {
  // Sets the defaults.
  FakeOptions() : Options("fake") {}

  // Every collective throws, including barriers and the end of coalescing, but not send() and
  // recv(): for tests of error handling, or of code that must not communicate.
  bool error_on_collective = false;
};

}  // namespace distrun
