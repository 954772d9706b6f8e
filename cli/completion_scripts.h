// The scripts of packaging/completions, which `distrun launch --print-completion` prints.
// CMake makes their source from completion_scripts.cc.in.
#pragma once

namespace distrun {

extern const char* const kBashCompletion;
extern const char* const kZshCompletion;

}  // namespace distrun
