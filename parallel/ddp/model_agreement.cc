#include "parallel/ddp/model_agreement.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

std::string text_of_facts(const NamedParameters& parameters) {
  std::string text;
  for (const NamedParameter& one : parameters) text += one.facts + "\n";
  return text;
}

std::string hash_of(const NamedParameters& parameters) {
  return std::to_string(std::hash<std::string>()(text_of_facts(parameters)));
}

std::vector<std::uint8_t> cbor_of(const NamedParameters& parameters) {
  auto json = nlohmann::json::array();
  for (const NamedParameter& one : parameters) json.push_back({one.name, one.facts});
  return nlohmann::json::to_cbor(json);
}

}  // namespace

ModelAgreement::ModelAgreement(c10d::ProcessGroup& group, const NamedParameters& parameters)
    : store_(group.getStore()), size_(group.getSize()), own_hash_(hash_of(parameters)) {
  // All ranks construct their models in the same order.
  const std::string rank = std::to_string(group.getRank());
  prefix_ = "ddp/" + std::to_string(store_->add("ddp/models_of_" + rank, 1)) + "/";
  store_->set(key(rank), cbor_of(parameters));
  store_->add(key("have " + own_hash_), 1);
  store_->add(key("ranks"), 1);
}

std::string ModelAgreement::difference(const std::vector<int>& ranks) const {
  if (store_->add(key("ranks"), 0) == store_->add(key("have " + own_hash_), 0)) return "";
  std::vector<NamedParameters> models;
  std::vector<int> that_published;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({key(std::to_string(rank))})) continue;
    models.push_back(parameters_of(rank));
    that_published.push_back(ranks[static_cast<std::size_t>(rank)]);
  }
  return first_difference(models, that_published);
}

NamedParameters ModelAgreement::parameters_of(int rank) const {
  NamedParameters parameters;
  for (const auto& one : nlohmann::json::from_cbor(store_->get(key(std::to_string(rank))))) {
    parameters.push_back({one.at(0).get<std::string>(), one.at(1).get<std::string>()});
  }
  return parameters;
}

std::string first_difference(const std::vector<NamedParameters>& models,
                             const std::vector<int>& ranks) {
  std::size_t longest = 0;
  for (const NamedParameters& one : models) longest = std::max(longest, one.size());
  for (std::size_t i = 0; i < longest; ++i) {
    std::vector<std::pair<std::string, std::vector<int>>> ranks_by_facts;
    std::string name;
    for (std::size_t model = 0; model < models.size(); ++model) {
      const bool has_it = i < models[model].size();
      if (has_it && name.empty()) name = models[model][i].name;
      const std::string facts = has_it ? models[model][i].facts : "missing";
      auto place = std::find_if(ranks_by_facts.begin(), ranks_by_facts.end(),
                                [&](const auto& one) { return one.first == facts; });
      if (place == ranks_by_facts.end()) place = ranks_by_facts.insert(place, {facts, {}});
      place->second.push_back(ranks[model]);
    }
    if (ranks_by_facts.size() < 2) continue;
    std::string text;
    for (const auto& [facts, its_ranks] : ranks_by_facts) {
      text += (text.empty() ? "" : " and ") + facts + " on " + list_of_ranks(its_ranks);
    }
    return "parameter '" + name + "' is " + text;
  }
  return "";
}

}  // namespace distrun::internal
