// Options of the backend "fake" (distrun/fake.h).
//
//     const auto options = c10::make_intrusive<FakeOptions>();
//     options->error_on_collective = true;
//     init_process_group({.backend = "fake", .backend_options = options});
//
// This is a separate header, because LibTorch's header of backends takes seconds to compile.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// Pass it as InitOptions::backend_options or GroupOptions::backend_options.  The group copies the
// options when it is created.
struct FakeOptions : c10d::Backend::Options {
  // Sets the defaults.
  FakeOptions() : Options("fake") {}

  // If true, every collective throws, and so do barriers and the end of coalescing; send() and
  // recv() do not throw.  Use it to test error handling.
  bool error_on_collective = false;
};

}  // namespace distrun
