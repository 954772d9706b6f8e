// Forked processes for tests: each ends within kSecondsMax, at the latest with the test.
//
//     ChildProcess child([&](int socket) { … return true; });   // In the child; true exits with 0.
//     send_to(child.socket(), shared({tensor}));                // Child: receive_tensors(socket)
//     EXPECT_TRUE(child.succeeded());
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/packet_socket.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::testing {

inline constexpr unsigned kSecondsMax = 60;
// Exceeds any correct wait in a test.
inline constexpr std::chrono::seconds kLong{50};

inline std::vector<at::Tensor> receive_tensors(int socket) {
  auto packet = receive_packet(socket).value();
  return internal::taken_over(nlohmann::json::parse(packet.bytes), packet.descriptors);
}

using internal::SharedTensor;

inline void send_to(int socket, const std::vector<SharedTensor>& tensors) {
  internal::MessageDescriptors descriptors;
  const std::string fields = internal::hand_over(tensors, descriptors).dump();
  send_packet(socket, fields, descriptors.all).value();
}

inline std::vector<SharedTensor> shared(const std::vector<at::Tensor>& tensors) {
  return {tensors.begin(), tensors.end()};
}

class ChildProcess {
 public:
  explicit ChildProcess(const std::function<bool(int)>& function) {
    auto sockets = make_packet_sockets().value();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::alarm(kSecondsMax);
      sockets.first.reset();
      bool is_good = false;
      try {
        is_good = function(sockets.second.get());
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child: %s\n", error.what());
      }
      ::_exit(is_good ? 0 : 1);
    }
    socket_ = std::move(sockets.first);
  }

  ~ChildProcess() {
    if (pid_ > 0) kill();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int socket() const { return socket_.get(); }
  pid_t pid() const { return pid_; }

  // Waits for the child's say().
  void wait_for_word() const { EXPECT_FALSE(receive_packet(socket_.get()).value().has_ended); }

  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }

  bool succeeded() {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    pollfd watched{pidfd.get(), POLLIN, 0};
    if (::poll(&watched, 1, static_cast<int>(kSecondsMax) * 1000) != 1) {
      kill();
      return false;
    }
    return wait() == 0;
  }

 private:
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  pid_t pid_ = -1;
  UniqueFd socket_;
};

// Sends the byte that ChildProcess::wait_for_word() waits for.
inline void say(int socket) { send_packet(socket, "x", {}).value(); }

inline std::set<std::string> files_in(const char* folder) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder), ::closedir);
  while (const dirent* entry = ::readdir(directory.get())) names.insert(entry->d_name);
  return names;
}

inline std::size_t open_descriptors() { return files_in("/proc/self/fd").size(); }

// The text of the LibTorch error that `function` throws, without its backtrace.
template <class Thrown, class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Thrown& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace distrun::testing
