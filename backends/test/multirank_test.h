// For test programs that every rank of a run executes. Each test has its own default group.
#pragma once

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun {

class MultirankTest : public ::testing::Test {
 protected:
  // Short, so that other ranks do not wait long for a failed one.
  void SetUp() override {
    pretend_hosts();
    init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  }
  void TearDown() override {
    if (!is_initialized()) return;
    barrier();
    destroy_process_group();
  }

  // CTest runs some suites with several backends.
  static std::string backend() {
    const char* given = std::getenv("DISTRUN_MULTIRANK_BACKEND");
    return given == nullptr ? "gloo" : given;
  }

  // With DISTRUN_MULTIRANK_HOSTS, the ranks take turns to be on that many hosts, for the backend
  // shm.
  static void pretend_hosts() {
    const char* hosts = std::getenv("DISTRUN_MULTIRANK_HOSTS");
    const char* rank = std::getenv("RANK");
    if (hosts == nullptr || rank == nullptr) return;
    ::setenv("DISTRUN_HOST_ID", std::to_string(std::stoi(rank) % std::stoi(hosts)).c_str(), 1);
  }

  // Returns when every rank has called it with `place`. Uses the store, so a rank may exit
  // afterwards without breaking messages that other ranks await.
  static void rendezvous_at(const std::string& place) {
    const auto store = default_group().getStore();
    store->set(place + std::to_string(get_rank()), std::vector<std::uint8_t>());
    for (int rank = 0; rank < get_world_size(); ++rank) store->wait({place + std::to_string(rank)});
  }

  // The input of rank `rank`, which every rank can compute.
  static at::Tensor input_of(int rank) {
    return at::arange(6, at::kFloat).view({2, 3}) + 10 * rank;
  }
  static at::Tensor input() { return input_of(get_rank()); }

  // The text of the `Error` that `act` throws.  Any other exception fails the test.
  template <class Error = c10::Error, class Act>
  static std::string error_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }

  // A pattern for "the connection to rank 2 was lost", with any rank except this one, or for what
  // the backend says instead.
  static std::string lost_peer() {
    std::string others;
    for (int rank = 0; rank < get_world_size(); ++rank) {
      if (rank != get_rank()) others += std::to_string(rank);
    }
    const std::string rank = "rank [" + others + "]";
    const std::string lost = "the connection to " + rank + " was lost: ";
    if (backend() != "shm") return lost;
    return "(" + rank + " has left the group|a call failed on " + rank + ": |" + lost + ")";
  }

  // f(0), f(1), …, one per rank.
  template <class Function>
  static auto of_all_ranks(const Function& function) {
    std::vector<decltype(function(0))> all;
    for (int rank = 0; rank < get_world_size(); ++rank) all.push_back(function(rank));
    return all;
  }
};

}  // namespace distrun
