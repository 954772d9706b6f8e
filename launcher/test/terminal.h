// For tests: a program that runs in the foreground of a terminal of its own.
//
//     Terminal terminal({"bash", "-mc", "distrun launch cat"});
//     terminal.wait_for("ready");
//     terminal.type("\x03");                       // Ctrl-C
//     EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{130})) << terminal.text();
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/process_end.h"

namespace distrun::testing {

class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments);
  ~Terminal();  // Hangs up, and kills the program where it is still there.
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);

  // Until the terminal shows `text`, which is then behind us: the next call looks for what comes
  // later.  False where it does not come within half a minute, or the program has ended.
  bool wait_for(const std::string& text);

  // Types `keys` again and again until `text` shows.
  bool type_until(const std::string& keys, const std::string& text);

  // Who is in the foreground gets SIGWINCH.
  void resize(int columns);

  void hang_up() { screen_.reset(); }

  // Waits until the program has ended; within half a minute, or it is killed.
  ProcessEnd end();

  const std::string& text() const { return text_; }  // Everything shown so far.
  pid_t pid() const { return pid_; }

 private:
  bool read(int timeout_ms);
  bool is_shown(const std::string& text);

  UniqueFd screen_;
  pid_t pid_ = -1;
  std::string text_;
  std::size_t seen_ = 0;
};

}  // namespace distrun::testing
