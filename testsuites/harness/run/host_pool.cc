#include "testsuites/harness/run/host_pool.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace distrun {

HostPool::HostPool(boost::asio::io_context& io, Options options, Handlers handlers)
    : io_(io),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      hosts_(options_.programs.size()) {}

Result<void> HostPool::start_all() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (auto started = start(i); !started) return started;
  }
  return {};
}

Result<void> HostPool::start(std::size_t program) {
  hosts_[program].ready = false;
  auto host = TestHostProcess::start(
      io_, options_.command.empty() ? std::vector{options_.programs[program]} : options_.command,
      options_.environment, options_.keeps_terminal,
      {.on_ready =
           [this, program](std::vector<TestInfo> tests) {
             hosts_[program].ready = true;
             hosts_[program].tests = std::move(tests);
             handlers_.on_ready(program);
           },
       .on_forked = handlers_.on_forked,
       .on_not_forked = handlers_.on_not_forked,
       .on_ended = handlers_.on_ended,
       .on_lost =
           [this, program](const std::string& reason) {
             hosts_[program].ready = false;
             handlers_.on_lost(program, fmt::format("the test program {} failed: {}",
                                                    options_.programs[program], reason));
           }},
      options_.ready_timeout);
  if (!host) return host.error().with_context("start " + options_.programs[program]);
  hosts_[program].process = std::move(*host);
  return {};
}

bool HostPool::replace(std::size_t program) {
  Host& host = hosts_[program];
  end(program);
  const bool broken = ++host.losses > options_.losses_max;
  const auto started =
      broken ? Result<void>(Error{ErrorKind::kSystem, "it ended too often"}) : start(program);
  if (started) return true;
  host.given_up = fmt::format("the test program {} cannot be used: {}", options_.programs[program],
                              started.error().message);
  return false;
}

std::optional<std::vector<LoadedTest>> HostPool::tests() const {
  std::vector<LoadedTest> all;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].ready) return std::nullopt;
    for (const TestInfo& test : hosts_[i].tests) all.push_back({test, i});
  }
  return all;
}

bool HostPool::has(pid_t child) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [child](const Host& host) {
    return host.process && host.process->pid() == child;
  });
}

}  // namespace distrun
