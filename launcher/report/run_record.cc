#include "launcher/report/run_record.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/text/utc_time.h"
#include "launcher/report/event_json.h"
#include "launcher/report/summary.h"
#include "pages/html_page.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  // Output may not be UTF-8; JSON must be.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string list_of(const std::vector<std::string>& texts) {
  return fmt::format("[{}]", fmt::join(texts, ",\n  "));
}

}  // namespace

void RunRecord::happened(const RunEvent& event, Time now) {
  if (const auto* started = std::get_if<AttemptStarted>(&event)) attempt_ = started->attempt;
  if (std::holds_alternative<AttemptFailed>(event)) ++restarts_;
  events_.push_back({attempt_, event_json(event, plan_, host_, now)});
  if (events_.size() > kEventsMax) forget_some_events();
  if (const auto* ended = std::get_if<RunEnded>(&event)) {
    has_succeeded_ = ended->end.cause == RunEnd::Cause::kSucceeded;
    headline_ = has_succeeded_ ? "The run succeeded" : headline(plan_, ended->end);
  }
}

// Drops the events of the oldest attempt between the first and the last; without one, the middle
// event.
void RunRecord::forget_some_events() {
  const auto second = std::find_if(events_.begin(), events_.end(),
                                   [](const Event& event) { return event.attempt > 0; });
  if (second == events_.end() || second->attempt == attempt_) {
    events_.erase(events_.begin() + kEventsMax / 2);
    ++events_left_out_;
    return;
  }
  const int forgotten = second->attempt;
  std::erase_if(events_, [&](const Event& event) { return event.attempt == forgotten; });
}

void RunRecord::loaded(const std::vector<WorkerLoad>& loads, Time now) {
  if (samples_to_skip_ > 0) {
    --samples_to_skip_;
    return;
  }
  samples_to_skip_ = sample_stride_ - 1;
  Json workers = Json::array();
  for (const WorkerLoad& load : loads) {
    const auto index = static_cast<std::size_t>(load.worker.value());
    workers.push_back({plan_.workers[index].rank.value(),
                       std::chrono::duration<double>(load.cpu_time).count(), load.resident_bytes});
  }
  samples_.push_back(text_of({{"time", rfc3339(now)}, {"workers", std::move(workers)}}));
  if (samples_.size() < kSamplesMax) return;
  for (std::size_t i = 1; 2 * i < samples_.size(); ++i) samples_[i] = std::move(samples_[2 * i]);
  samples_.resize((samples_.size() + 1) / 2);
  sample_stride_ *= 2;
}

void RunRecord::wrote(const WorkerText& output) {
  while (!output_.empty() && output_.front().attempt + kAttemptsMax <= output.attempt) {
    output_.pop_front();
  }
  output_.push_back(output);
}

std::string RunRecord::html(const std::string& summary) const {
  Json run = {{"succeeded", has_succeeded_},
              {"headline", headline_},
              {"summary", summary},
              {"host", host_},
              {"node_rank", plan_.options.node_rank},
              {"nodes", plan_.options.nnodes},
              {"workers", plan_.workers.size()},
              {"restarts", restarts_},
              {"events_left_out", events_left_out_},
              {"command", plan_.workers.empty() ? "" : command_line(plan_.workers.front())},
              {"run_id", plan_.options.run_id}};
  std::vector<std::string> events;
  for (const Event& event : events_) events.push_back(event.json);
  std::vector<std::string> output;
  for (const WorkerText& one : output_) {
    const auto index = static_cast<std::size_t>(one.worker.value());
    output.push_back(text_of({{"attempt", one.attempt},
                              {"rank", plan_.workers[index].rank.value()},
                              {"text", one.text}}));
  }
  const std::string data =
      fmt::format("{{\n \"run\": {},\n \"events\": {},\n \"samples\": {},\n \"output\": {}\n}}\n",
                  text_of(run), list_of(events), list_of(samples_), list_of(output));
  return html_page(Page::kRun, headline_ + " – distrun launch", data);
}

}  // namespace distrun
