// Options of the backend "fake" (distrun/fake.h).
//
//     const auto options = c10::make_intrusive<FakeOptions>();
//     options->error_on_collective = true;
//     init_process_group({.backend = "fake", .backend_options = options});
//
// FakeOptions has a separate header, because this header includes a header of LibTorch that takes
// seconds to compile.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// The options.  Pass a pointer to a FakeOptions as InitOptions::backend_options or
// GroupOptions::backend_options.  The group copies the options when it is created.
struct FakeOptions : c10d::Backend::Options {
  // Sets the defaults.
  FakeOptions() : Options("fake") {}

  // If true, every collective throws, including barriers and c10d::Backend::endCoalescing().
  // send() and recv() do not throw.  Use this option to test how a program handles errors.
  bool error_on_collective = false;
};

}  // namespace distrun
