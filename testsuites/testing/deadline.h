// Deadline calls a function unless it is destroyed in time.
//
//     {
//       const Deadline deadline(std::chrono::seconds(5), [] { …; std::abort(); });
//       group->barrier()->wait();
//     }
//
// The function runs on its own thread and must end the process; a late destructor waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace distrun {

class Deadline {
 public:
  Deadline(std::chrono::nanoseconds time, std::function<void()> when_missed);
  ~Deadline();

  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread thread_;
};

}  // namespace distrun
