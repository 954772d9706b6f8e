// Messages for unknown commands and flags, which suggest what the user probably meant.
//
//     unknown_command(app, "lunch")       // "unknown command lunch: did you mean launch?"
//     unknown_command(app, "train.py")    // "…; to start a program: distrun launch train.py"
#pragma once

#include <string>

#include <CLI/App.hpp>

namespace distrun {

// `word` is not a command of `app`.
std::string unknown_command(const CLI::App& app, const std::string& word);

// `word` is not a flag of `app`.
std::string unknown_flag(const CLI::App& app, const std::string& word);

}  // namespace distrun
