// The command that starts distrun's agent on a host: ssh, and a script for the host's shell.
//
//     const auto words = ssh_command({"ssh", "-p", "2222"}, "me@gpu-1", start_script(program));
//
// The script starts the copy of distrun in the user's cache on that host. If the host has no such
// copy, the script asks for it, and reads it from its stdin. Script and agent answer with lines on
// stdout. Other lines may precede them, because the user's shell may print some. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace distrun {

// This program, as it is copied.
struct ProgramCopy {
  std::string name;  // "distrun-edc8ccac7ff7": another one for another program.
  std::uint64_t bytes = 0;
};

// The first word of distrun's command line on a host.
inline constexpr const char* kHostAgentCommand = "host-agent";

// A host that needs longer for the copy is given up.
inline constexpr std::chrono::seconds kCopyMax{600};

// Lines on stdout.
inline constexpr std::string_view kCopyAsked = "distrun-host: send the program";
inline constexpr std::string_view kAgentReady = "distrun-host: ready";

// For sh, on one line, and without single quotes and exclamation marks: a user's shell may be csh
// or fish.
std::string start_script(const ProgramCopy& program);

// `ssh` is the user's command. ssh asks for nothing: it has no terminal.
std::vector<std::string> ssh_command(std::vector<std::string> ssh, const std::string& destination,
                                     const std::string& script);

}  // namespace distrun
