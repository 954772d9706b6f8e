// For tests: a program in the foreground of a new terminal.
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
  ~Terminal();  // Hangs up, and kills the program if it still runs.
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);

  // Waits until the terminal shows `text`, and continues from there in the next call. False after
  // half a minute, or if the program ends first.
  bool wait_for(const std::string& text);

  // Types `keys` repeatedly until `text` shows.
  bool type_until(const std::string& keys, const std::string& text);

  // The foreground processes get SIGWINCH.
  void resize(int columns);

  void hang_up() { screen_.reset(); }

  // Waits for the program to end; kills it after half a minute.
  ProcessEnd end();

  const std::string& text() const { return text_; }
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
