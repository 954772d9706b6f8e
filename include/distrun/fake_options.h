// The options of the backend "fake" (distrun/fake.h).
//
//     const auto options = c10::make_intrusive<FakeOptions>();
//     options->error_on_collective = true;
//     init_process_group({.backend = "fake", .backend_options = options});
//
// Apart from fake.h because LibTorch's header of backends takes seconds to compile.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// For InitOptions::backend_options and GroupOptions::backend_options.  They are copied.
struct FakeOptions : c10d::Backend::Options {
  FakeOptions() : Options("fake") {}

  // Every collective throws, barriers and the end of coalescing included, send() and recv() apart:
  // for tests of what a program does then, or of code that is to make none.
  bool error_on_collective = false;
};

}  // namespace distrun
