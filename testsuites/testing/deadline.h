// Deadline calls a function where it is not destroyed in time.
//
//     {
//       const Deadline deadline(std::chrono::seconds(5), [] { …; std::abort(); });
//       group->barrier()->wait();
//     }
//
// The function runs on a thread of its own, and is to end the process: a destructor that comes too
// late waits for it.
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
