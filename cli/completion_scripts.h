// The scripts of packaging/completions, for `distrun launch --print-completion`. CMake creates the
// source from completion_scripts.cc.in.
#pragma once

namespace distrun {

extern const char* const kBashCompletion;
extern const char* const kZshCompletion;

}  // namespace distrun
