#include "launcher/hosts/remote_shell.h"

#include <fmt/format.h>

namespace distrun {

std::string start_script(const ProgramCopy& program) {
  return fmt::format(
      "d=${{XDG_CACHE_HOME:-$HOME/.cache}}/distrun/bin; p=$d/{0}; "
      "if [ -f \"$p\" ] && [ -x \"$p\" ] && [ \"$(wc -c <\"$p\")\" -eq {2} ]; then :; else "
      // A connection may end without a sign: head gets a time limit.
      "limit=; if command -v timeout >/dev/null; then limit=\"timeout {3}\"; fi; "
      "t=; trap \"exit 125\" HUP PIPE TERM; trap \"rm -f \\\"\\$t\\\"\" EXIT; "
      "mkdir -p \"$d\" && t=$(mktemp \"$d/.copy.XXXXXX\") && echo && echo \"{1}\" && "
      "$limit head -c {2} >\"$t\" && [ \"$(wc -c <\"$t\")\" -eq {2} ] && chmod 755 \"$t\" && "
      "mv -f \"$t\" \"$p\" || "
      "{{ echo \"distrun: cannot copy distrun into $d\" >&2; exit 125; }}; fi; "
      "exec \"$p\" {4}",
      program.name, kCopyAsked, program.bytes, kCopyMax.count(), kHostAgentCommand);
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
