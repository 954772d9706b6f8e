// One rank of a run, for faults_test.cc. The seed says which rank fails during random collectives,
// and how:
//
//     faulty_rank BACKEND SEED
//
// A rank's variables must be set (rendezvous.h). Each rank writes a byte to stdout when it has
// started, and then waits for the end of stdin, so that no timeout runs while other ranks are
// starting. The victim writes another byte just before it fails. The others exit with the error on
// stderr and status 1; status 0 means that they did not notice.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "backends/test/faults.h"
#include "backends/test/random_collectives.h"
#include "common/os/environment.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "distrun/record.h"

namespace {

using distrun::testing::FaultPlan;
using distrun::testing::kCollectives;
using distrun::testing::kFaultTimeout;
using distrun::testing::RandomCollectives;

FaultPlan plan_of(char** argv) { return FaultPlan::of(static_cast<unsigned>(std::stoul(argv[2]))); }

int rank() { return std::stoi(distrun::Environment::from(environ).get("RANK").value()); }

void tell() {
  if (::write(STDOUT_FILENO, "!", 1) != 1) std::abort();
}

void wait_for_go() {
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
}

void commit(FaultPlan::Fault fault) {
  constexpr int kSignals[] = {SIGKILL, SIGSTOP, SIGABRT, SIGSEGV};
  std::raise(kSignals[static_cast<int>(fault)]);
}

// Varies the moment of the fault. No code waits for it.
void commit_beside(const FaultPlan& plan) {
  const std::chrono::microseconds delay(plan.seed % 5000);
  std::thread([delay, fault = plan.fault] {
    std::this_thread::sleep_for(delay);
    commit(fault);
  }).detach();
}

void fail(const FaultPlan& plan, RandomCollectives& collectives) {
  tell();
  if (plan.moment == FaultPlan::Moment::kBeside) return commit_beside(plan);
  if (plan.moment == FaultPlan::Moment::kInFlight) collectives.begin_next();
  commit(plan.fault);
}

int run(int /*argc*/, char** argv) {
  const std::string backend = argv[1];
  const FaultPlan plan = plan_of(argv);
  tell();
  wait_for_go();
  distrun::init_process_group({.backend = backend, .timeout = std::chrono::minutes(1)});
  // Two neighbouring ranks, with or without the victim.
  const int first = static_cast<int>(plan.seed / 9) % plan.ranks;
  const distrun::Group pair = distrun::new_group({{first, (first + 1) % plan.ranks}});
  distrun::barrier();
  if (rank() != plan.victim) {  // The victim must not time out.
    distrun::set_timeout(kFaultTimeout);
    if (pair.is_member()) distrun::set_timeout(kFaultTimeout, pair);
  }
  RandomCollectives collectives(plan.seed, {distrun::Group(), distrun::Group(), pair});
  for (int step = 0; step < kCollectives; ++step) {
    if (rank() == plan.victim && step == plan.step) fail(plan, collectives);
    collectives.next();
  }
  collectives.wait_for_all();
  if (rank() == plan.victim) ::pause();  // It must not exit before its fault.
  distrun::barrier();
  distrun::destroy_process_group();
  return 0;
}

int catch_and_leave(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    distrun::abort_process_group();
    distrun::destroy_process_group();
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return distrun::record(plan_of(argv).catches(rank()) ? catch_and_leave : run, argc, argv);
}
