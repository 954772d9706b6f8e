#include "parallel/ddp/test/join_pattern.h"

#include <algorithm>
#include <random>

#include <nlohmann/json.hpp>

namespace distrun::testing {

namespace {

// std::uniform_int_distribution differs between standard libraries.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  bool coin() { return below(2) == 0; }

 private:
  std::mt19937_64 random_;
};

DdpOptions draw_options(Draws& draw) {
  constexpr double kBucketCaps[] = {0, 0.001, 25};
  DdpOptions options{.bucket_cap_mb = kBucketCaps[draw.below(3)]};
  const int graph = draw.below(4);
  options.find_unused_parameters = graph == 1;
  options.static_graph = graph == 2;
  options.gradient_as_bucket_view = draw.coin();
  options.broadcast_buffers = draw.below(4) != 0;
  return options;
}

std::string uses_of(const DdpOptions& options) {
  if (options.find_unused_parameters) return "some";
  return options.static_graph ? "all but spare" : "all";
}

}  // namespace

int JoinPattern::inputs_max() const { return *std::max_element(inputs.begin(), inputs.end()); }

int JoinPattern::ranks_in(int step) const {
  return static_cast<int>(
      std::count_if(inputs.begin(), inputs.end(), [&](int count) { return step < count; }));
}

JoinPattern join_pattern(std::uint64_t seed, int ranks) {
  Draws draw(seed);
  JoinPattern pattern{.seed = seed, .options = draw_options(draw)};
  for (int rank = 0; rank < ranks; ++rank) {
    pattern.inputs.push_back(draw.below(kJoinInputsMax + 1));
  }
  pattern.uses = uses_of(pattern.options);
  pattern.half = draw.below(4) == 0;
  // The first backward of a static graph must reduce: it learns what to reduce.
  pattern.sync_every = pattern.options.static_graph || draw.coin() ? 1 : 2;
  pattern.counter = draw.coin();
  pattern.counter_first = draw.coin();
  const bool module_is_first = !pattern.counter || !pattern.counter_first;
  pattern.divide_by_initial_world_size = !module_is_first || draw.coin();
  return pattern;
}

JoinPattern faulty_join_pattern(std::uint64_t seed, int ranks) {
  JoinPattern pattern = join_pattern(seed, ranks);
  Draws draw(~seed);
  using Place = JoinFault::Place;
  const int rank = draw.below(ranks);
  int& inputs = pattern.inputs[static_cast<std::size_t>(rank)];
  const Place place = static_cast<Place>(draw.below(5));
  JoinFault fault{.place = place, .rank = rank, .step = 0};
  if (place == Place::kMainHook) {
    // Its main hook runs only if another rank has more inputs.
    inputs = 0;
    int& others = pattern.inputs[static_cast<std::size_t>((rank + 1) % ranks)];
    others = std::max(others, 1);
    fault.step = draw.below(pattern.inputs_max());
  } else if (place != Place::kPostHook) {
    inputs = std::max(inputs, 1);
    fault.step = draw.below(inputs);
  }
  pattern.counter = pattern.counter || (place != Place::kBody && place != Place::kBackward);
  pattern.divide_by_initial_world_size =
      pattern.divide_by_initial_world_size || pattern.counter_first;
  pattern.fault = fault;
  return pattern;
}

nlohmann::json to_json(const JoinPattern& pattern) {
  const DdpOptions& options = pattern.options;
  nlohmann::json json = {
      {"seed", pattern.seed},
      {"inputs", pattern.inputs},
      {"options",
       {{"bucket_cap_mb", options.bucket_cap_mb.value()},
        {"find_unused_parameters", options.find_unused_parameters},
        {"static_graph", options.static_graph},
        {"gradient_as_bucket_view", options.gradient_as_bucket_view},
        {"broadcast_buffers", options.broadcast_buffers}}},
      {"uses", pattern.uses},
      {"half", pattern.half},
      {"sync_every", pattern.sync_every},
      {"divide_by_initial_world_size", pattern.divide_by_initial_world_size},
      {"counter", pattern.counter},
      {"counter_first", pattern.counter_first},
  };
  if (!pattern.fault) return json;
  constexpr const char* kPlaces[] = {"body", "backward", "joinable", "main_hook", "post_hook"};
  json["fault"] = {{"place", kPlaces[static_cast<int>(pattern.fault->place)]},
                   {"rank", pattern.fault->rank},
                   {"step", pattern.fault->step}};
  return json;
}

}  // namespace distrun::testing
