#include "backends/group/roll_call.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "backends/group/answer_within.h"
#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{10};  // Between two queries of the store.

std::string key_of(std::size_t rank) { return "timed_out/" + std::to_string(rank); }

}  // namespace

// Shared with the thread that queries the store, which is abandoned if the store does not answer.
struct RollCall::Answers {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> calls;
  bool is_over = false;
  bool has_failed = false;

  template <class Change>
  void change(const Change& how) {
    const std::lock_guard lock(mutex);
    how();
    changed.notify_all();
  }
};

RollCall::RollCall(const GroupState& state) : ranks_(state.ranks) {
  if (!state.process_group) return;
  store_ = state.process_group->getStore();
  rank_ = state.process_group->getRank();
}

void RollCall::report(const std::string& function) const {
  if (!store_) return;
  // If this fails, other ranks report this rank as missing.
  answer_within(kPatience,
                [store = store_, key = key_of(static_cast<std::size_t>(rank_)), function] {
                  store->set(key, std::vector<std::uint8_t>(function.begin(), function.end()));
                  return function;
                });
}

std::string RollCall::missing(const std::string& function) const {
  if (!store_) return "";
  const auto deadline = steady_clock::now() + kPatience;
  report(function);
  std::vector<std::size_t> all(ranks_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto calls = calls_of(std::move(all), deadline);
  return calls ? text_of_roll_call(*calls, ranks_) : "";
}

std::string RollCall::missing_peer(const std::string& function, int peer) const {
  if (!store_) return "";
  const auto deadline = steady_clock::now() + kPatience;
  report(function);
  const auto index = static_cast<std::size_t>(peer);
  const auto calls = calls_of({index}, deadline);
  const std::string name = "rank " + std::to_string(ranks_[index]);
  if (!calls || calls->front().empty()) return name + " did not come";
  return name + " waits in " + calls->front();
}

std::optional<std::vector<std::string>> RollCall::calls_of(std::vector<std::size_t> asked,
                                                           TimePoint deadline) const {
  const auto answers = std::make_shared<Answers>();
  answers->calls.resize(asked.size());
  std::thread([answers, store = store_, asked = std::move(asked), deadline] {
    try {
      std::size_t left = asked.size();
      bool is_last = false;
      while (left > 0 && !is_last) {
        is_last = steady_clock::now() >= deadline;
        for (std::size_t i = 0; i < asked.size(); ++i) {
          if (!answers->calls[i].empty() || !store->check({key_of(asked[i])})) continue;
          const auto bytes = store->get(key_of(asked[i]));
          answers->change([&] { answers->calls[i].assign(bytes.begin(), bytes.end()); });
          --left;
        }
        if (left > 0 && !is_last) std::this_thread::sleep_for(kPause);
      }
    } catch (const std::exception&) {
      answers->change([&] { answers->has_failed = true; });
    }
    answers->change([&] { answers->is_over = true; });
  }).detach();
  std::unique_lock lock(answers->mutex);
  const bool answered =
      answers->changed.wait_until(lock, deadline + kPatience, [&] { return answers->is_over; });
  if (!answered || answers->has_failed) return std::nullopt;
  return answers->calls;
}

std::string text_of_roll_call(const std::vector<std::string>& calls,
                              const std::vector<int>& ranks) {
  std::vector<int> absent;
  std::map<std::string, std::vector<int>> ranks_by_call;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].empty()) {
      absent.push_back(ranks[i]);
    } else {
      ranks_by_call[calls[i]].push_back(ranks[i]);
    }
  }
  if (!absent.empty()) return list_of_ranks(absent) + " did not come";
  if (ranks_by_call.size() < 2) return "every rank came and waited for the others";
  std::string text = "ranks wait in different calls: ";
  for (const auto& [call, its_ranks] : ranks_by_call) {
    if (!text.ends_with(": ")) text += ", ";
    text += list_of_ranks(its_ranks) + " in " + call;
  }
  return text;
}

}  // namespace distrun::internal
