#include "testsuites/harness/nodes/remote_node.h"

#include <utility>
#include <variant>

#include "testsuites/harness/protocol/test_list_json.h"

namespace distrun {

RemoteNode::RemoteNode(boost::asio::io_context& io, Options options, Handlers handlers)
    : io_(io),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      programs_(options_.programs) {}

void RemoteNode::send(const TestOrder& order) {
  if (lost_.empty()) options_.send(to_text(order));
}

void RemoteNode::take(const std::string& text) {
  if (!lost_.empty()) return;
  auto report = parse_test_report(text);
  if (!report) return options_.on_garbage(report.error());
  std::visit([this](auto& what) { take(std::move(what)); }, *report);
}

void RemoteNode::take(const HostReport& report) {
  if (report.program >= programs_.size()) {
    return options_.on_garbage({ErrorKind::kProtocol, "it has another number of test programs"});
  }
  Program& program = programs_[report.program];
  switch (report.kind) {
    case HostReport::Kind::kReady: {
      auto tests = parse_test_list(report.text);
      if (!tests) return options_.on_garbage(tests.error());
      program = {.ready = true, .given_up = "", .tests = std::move(*tests)};
      return handlers_.on_ready(report.program);
    }
    case HostReport::Kind::kLost:
      program.ready = false;
      return handlers_.on_lost(report.program, options_.name + ": " + report.text);
    case HostReport::Kind::kGivenUp:
      program.given_up = options_.name + ": " + report.text;
      return handlers_.on_given_up(report.program);
  }
}

std::shared_ptr<RemotePart> RemoteNode::part_of(std::uint64_t key) const {
  const auto found = parts_.find(key);
  return found == parts_.end() ? nullptr : found->second.lock();
}

void RemoteNode::take(const RankReport& report) {
  if (const auto part = part_of(report.key)) part->take(report);
}

void RemoteNode::take(PartReport report) {
  if (const auto part = part_of(report.key)) part->take(std::move(report));
}

void RemoteNode::take(RankFactsTold told) {
  const auto part = part_of(told.key);
  if (part) part->take(std::move(told), options_.clock_ahead());
}

void RemoteNode::lose(const std::string& why) {
  if (!lost_.empty()) return;
  lost_ = why;
  for (Program& program : programs_) program.given_up = lost_;
  for (const auto& [key, weak] : parts_) {
    if (const auto part = weak.lock()) part->node_lost(lost_);
  }
}

Result<void> RemoteNode::start_all() {
  send(StartHosts{});
  return {};
}

std::optional<std::vector<LoadedTest>> RemoteNode::tests() const {
  std::vector<LoadedTest> all;
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (!programs_[i].ready) return std::nullopt;
    for (const TestInfo& test : programs_[i].tests) all.push_back({test, i});
  }
  return all;
}

void RemoteNode::replace(std::size_t program) { send(HostTask{HostTask::Kind::kReplace, program}); }

void RemoteNode::passed_a_test(std::size_t program) {
  send(HostTask{HostTask::Kind::kPassedATest, program});
}

void RemoteNode::end(std::size_t program) {
  programs_[program].ready = false;
  send(HostTask{HostTask::Kind::kEnd, program});
}

void RemoteNode::end_all() {
  send(EndTests{});
  lost_ = "the tests have ended";
}

std::shared_ptr<AttemptPart> RemoteNode::make_part(PartOptions options, PartHandlers handlers) {
  std::erase_if(parts_, [](const auto& one) { return one.second.expired(); });
  const std::uint64_t key = options.first_key;
  auto part = std::make_shared<RemotePart>(io_, std::move(options), std::move(handlers),
                                           [this](const TestOrder& order) { send(order); });
  parts_[key] = part;
  if (!lost_.empty()) part->node_lost(lost_);
  return part;
}

}  // namespace distrun
