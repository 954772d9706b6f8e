#include "cli/test_nodes_flags.h"

#include <chrono>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/hosts_orders.h"
#include "cli/launch_flags.h"
#include "common/os/host_name.h"
#include "launcher/engines/engine_place.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

// Instead of the texts of distrun launch.
const std::map<std::string_view, const char*>& texts_for_tests() {
  static const std::map<std::string_view, const char*> texts = {
      {"nnodes",
       "Number of nodes (machines) on which the tests run. You must start the same distrun test on "
       "each node, or give --hosts instead."},
      {"node-rank",
       "Rank of this node, from 0 to the number of nodes minus 1. Node 0 selects the tests, prints "
       "the results and writes the files. The first ranks of each test run there."},
      {"master-addr",
       "Address or name of node 0, the same on every node. With several nodes, the flag is "
       "required, unless an engine such as Slurm gives the address."},
      {"master-port", "Port of node 0 to which the other nodes connect. The default is 29500."},
      {"rdzv-conf",
       "timeout=SECONDS sets the longest time that nodes wait for each other at the start. The "
       "default is 900 seconds."},
      {"rdzv-id", "Id of the run. Node 0 refuses nodes with another id. The default is 'none'."},
      {"hosts",
       "Run the tests on other machines, over ssh. LIST contains names or addresses, separated by "
       "commas, such as gpu-1,gpu-2 or gpu[1-4]. The first host is node 0, which writes the files "
       "of --json and the like."}};
  return texts;
}

// launch_options() requires a program, which the options of nodes do not depend on.
constexpr const char* kAnyProgram = "distrun";

void check_hosts_of_tests(const CommandLine& line, const std::vector<HostChoice>& hosts) {
  for (const HostChoice& host : hosts) {
    if (!host.workers) continue;
    throw CLI::ValidationError(
        line.find("hosts")->said,
        fmt::format("'{0}:{1}': a test itself says how many ranks it has; remove ':{1}'",
                    host.destination, *host.workers));
  }
}

// Reading call stacks takes up to three seconds.
void check_heartbeat(std::chrono::milliseconds heartbeat) {
  if (heartbeat.count() == 0 || heartbeat >= std::chrono::seconds(2)) return;
  throw CLI::ValidationError("--heartbeat", "must be 0, or 2 seconds or more");
}

}  // namespace

std::array<std::pair<std::string_view, std::string*>, 11> TestNodesFlags::values() {
  return {{{"nnodes", &flags_.nnodes},
           {"node-rank", &flags_.node_rank},
           {"master-addr", &flags_.master_addr},
           {"master-port", &flags_.master_port},
           {"rdzv-endpoint", &flags_.rdzv_endpoint},
           {"rdzv-conf", &flags_.rdzv_conf},
           {"rdzv-id", &flags_.run_id},
           {"heartbeat", &flags_.heartbeat},
           {"hosts", &flags_.hosts},
           {"ssh", &flags_.ssh},
           {"pass-env", &flags_.pass_env}}};
}

void TestNodesFlags::add_to(CLI::App& command) {
  command_ = &command;
  for (const auto& [name, value] : values()) {
    bind_flag(command, name, *value);
    CLI::Option& option = *command.get_option(fmt::format("--{}", name));
    option.group("Nodes");
    const auto text = texts_for_tests().find(name);
    if (text != texts_for_tests().end()) option.description(text->second);
  }
  command.get_option("--master-addr")->default_str("");  // On one node, it has no effect.
}

CommandLine TestNodesFlags::given() {
  CommandLine line{.flags = {}, .program = {kAnyProgram}};
  for (const auto& [name, value] : values()) {
    const std::string said = fmt::format("--{}", name);
    if (command_->count(said) > 0) line.flags[std::string(name)] = {*value, said};
  }
  return line;
}

bool TestNodesFlags::has_hosts() const { return command_->count("--hosts") > 0; }

std::optional<TestNodes> TestNodesFlags::place(const Environment& environment) {
  CommandLine line = given();
  check_without_hosts(line);
  placed_ = place_by_engine(line, environment, TasksOfNode::kOne);
  if (placed_.error) {
    if (!placed_.tells_error) throw SaidByTask0{};
    throw CLI::ParseError(placed_.error->message, kExitUsage);
  }
  flags_.is_placed = placed_.place.mode != EngineMode::kAlone;
  for (const auto& [name, value] : values()) {
    if (const GivenFlag* flag = line.find(name)) *value = flag->value;
  }
  // Without variables, which are for the workers of a launch.
  const LaunchOptions options = launch_options(flags_, line, this_machine(environment), {});
  if (options.nnodes == 1) return std::nullopt;
  check_heartbeat(options.heartbeat);
  const auto host = flags_.is_placed ? placed_.facts->host.value : std::nullopt;
  return TestNodes{.nodes = options.nnodes,
                   .node = options.node_rank,
                   .address = {options.master_addr, options.master_port},
                   .address_flag = options.address_flag,
                   .run_id = options.run_id,
                   .host = host.value_or(host_name()),
                   .join_timeout = options.join_timeout,
                   .heartbeat = options.heartbeat};
}

bool TestNodesFlags::tells_errors() const {
  return !flags_.is_placed || tells_error(*placed_.facts);
}

TestNodesFlags::OnHosts TestNodesFlags::on_hosts(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  const CommandLine line = given();
  auto hosts = chosen_hosts(line);
  check_hosts_of_tests(line, hosts);
  HostsRun run =
      hosts_run(std::move(hosts),
                {.command = "test", .arguments = [&](const HostChoice&) { return arguments; }},
                flags_, line, environment);
  LaunchOptions options = options_on_hosts(run, flags_, line, {});
  return {.run = std::move(run), .options = std::move(options)};
}

}  // namespace distrun
