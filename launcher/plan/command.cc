#include "launcher/plan/command.h"

#include <filesystem>

#include <unistd.h>

namespace distrun {

namespace {

enum class Runnable { kYes, kNo, kNotThere };

Runnable look_at(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  // A folder in the path is not accessible.
  if (error == std::errc::permission_denied) return Runnable::kNo;
  if (!std::filesystem::exists(status)) return Runnable::kNotThere;
  if (std::filesystem::is_directory(status)) return Runnable::kNo;
  return ::access(path.c_str(), X_OK) == 0 ? Runnable::kYes : Runnable::kNo;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

Error not_executable(const std::string& path) {
  if (is_folder(path)) {
    return {ErrorKind::kNotExecutable, path + ": is a directory"};
  }
  return {ErrorKind::kNotExecutable, path + ": not executable (chmod +x?)"};
}

}  // namespace

Result<std::string> find_program(std::string_view name, const Environment& environment) {
  const std::string program(name);
  if (program.empty()) return Error{ErrorKind::kNotFound, "PROGRAM is empty"};
  if (program.find('/') != std::string::npos) {
    switch (look_at(program)) {
      case Runnable::kYes:
        return program;
      case Runnable::kNo:
        return not_executable(program);
      case Runnable::kNotThere:
        break;
    }
    return Error{ErrorKind::kNotFound, program + ": no such file"};
  }
  // Like execvp(): the first executable file wins; otherwise the first unusable one is the error.
  const std::string path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  std::string unusable;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    begin = end + 1;
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    const Runnable runnable = look_at(candidate);
    if (runnable == Runnable::kYes) return candidate;
    if (runnable == Runnable::kNo && unusable.empty() && !is_folder(candidate)) {
      unusable = candidate;
    }
  }
  if (!unusable.empty()) return not_executable(unusable);
  const bool is_here = look_at("./" + program) != Runnable::kNotThere;
  return Error{
      ErrorKind::kNotFound,
      program + ": not found on PATH" +
          (is_here ? "; the current folder has one: did you mean ./" + program + "?" : "")};
}

Result<Command> resolve_command(const LaunchOptions& options, const Environment& environment) {
  const bool script = options.python || options.program.ends_with(".py");
  if (options.no_python || !(script || options.module)) {
    auto executable = find_program(options.program, environment);
    if (!executable) return executable.error();
    Command command{*executable, {options.program}};
    command.arguments.insert(command.arguments.end(), options.arguments.begin(),
                             options.arguments.end());
    return command;
  }
  if (!options.module && look_at(options.program) == Runnable::kNotThere) {
    return Error{ErrorKind::kNotFound, options.program + ": no such file"};
  }
  const std::string python = environment.get("PYTHON_EXEC").value_or("python3");
  auto executable = find_program(python, environment);
  if (!executable) return executable.error().with_context("to run " + options.program);
  Command command{*executable, {python, "-u"}};
  if (options.module) command.arguments.emplace_back("-m");
  command.arguments.push_back(options.program);
  command.arguments.insert(command.arguments.end(), options.arguments.begin(),
                           options.arguments.end());
  return command;
}

}  // namespace distrun
