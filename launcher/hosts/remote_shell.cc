#include "launcher/hosts/remote_shell.h"

#include <fmt/format.h>

namespace distrun {

std::string start_script(const ProgramCopy& program) {
  return fmt::format(
      "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/distrun/bin; p=$d/{0}; "
      "if [ -x \"$p\" ]; then :; else "
      "t=; mkdir -p \"$d\" && t=$(mktemp \"$d/.copy.XXXXXX\") && echo \"{1}\" && "
      "head -c {2} >\"$t\" && [ \"$(wc -c <\"$t\")\" -eq {2} ] && chmod 755 \"$t\" && "
      "mv -f \"$t\" \"$p\" || "
      "{{ rm -f \"$t\"; echo \"distrun: cannot copy distrun into $d\" >&2; exit 125; }}; fi; "
      "exec \"$p\" {3}",
      program.name, kCopyAsked, program.bytes, kHostAgentCommand);
}

std::vector<std::string> ssh_command(std::vector<std::string> ssh, const std::string& destination,
                                     const std::string& script) {
  // Of options that the user gives too, ssh takes the first. Without an answer, ssh ends after 15
  // s.
  for (const char* option :
       {"BatchMode=yes", "ConnectTimeout=30", "ServerAliveInterval=5", "ServerAliveCountMax=3"}) {
    ssh.insert(ssh.end(), {"-o", option});
  }
  ssh.insert(ssh.end(), {"-T", destination, fmt::format("exec sh -c '{}'", script)});
  return ssh;
}

}  // namespace distrun
