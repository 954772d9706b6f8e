// What is wrong with a command line, in distrun's words instead of CLI11's: with the command or the
// flag that was probably meant.
//
//     unknown command lunch: did you mean launch?
//     unknown command train.py; to start it: distrun launch train.py
//     unknown flag --repaet: did you mean --repeat?
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

namespace distrun {

// The innermost command that the line names: "distrun store get", or `app` itself.
const CLI::App& innermost_command(const CLI::App& app);

// Its name, with those of the commands around it.
std::string command_name(const CLI::App& app);

// `arguments` follow the program's name; `app` has parsed them and thrown `error`.
std::string usage_problem(const CLI::App& app, const std::vector<std::string>& arguments,
                          const CLI::ParseError& error);

}  // namespace distrun
