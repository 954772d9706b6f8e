// A part of an order is needed if some litmus has a fault without it.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "backends/shm/host/test/model/explorer.h"

namespace distrun::shm::model {

namespace {

struct Part {
  Half half;
  const char* name;
  bool Site::*has;
};
constexpr Part kParts[] = {{Half::kAcquire, "acquire", &Site::acquires},
                           {Half::kRelease, "release", &Site::releases},
                           {Half::kFailureAcquire, "acquire on failure", &Site::failure_acquires}};

}  // namespace

std::vector<std::string> needless_orders(const std::vector<Litmus>& all) {
  std::set<std::string> used, needed;
  for (const Litmus& litmus : all) {
    for (const Site& site : explore(litmus.program, litmus.options).sites) {
      for (const Part& part : kParts) {
        if (!(site.*part.has)) continue;
        const std::string text = site.text + ": " + part.name;
        used.insert(text);
        if (needed.count(text) != 0) continue;
        Options options = litmus.options;
        options.weakened = {site, part.half};
        if (!explore(litmus.program, options).fault.empty()) needed.insert(text);
      }
    }
  }
  std::vector<std::string> needless;
  std::set_difference(used.begin(), used.end(), needed.begin(), needed.end(),
                      std::back_inserter(needless));
  return needless;
}

}  // namespace distrun::shm::model
