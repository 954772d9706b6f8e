#include "testsuites/harness/run/attempt_run.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "distrun/store_server.h"
#include "evidence/connections/rank_sockets.h"
#include "store/network/client_processes.h"
#include "testsuites/harness/run/rank_place.h"
#include "testsuites/harness/run/rank_spread.h"

namespace distrun {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// For a node to read where its ranks are, and for them to tell their collectives.
constexpr std::chrono::seconds kSeenTimeout{10}, kCollectivesTimeout{3};
// For a node to report the facts about its ranks after the end.
constexpr std::chrono::seconds kFactsTimeout{60};

}  // namespace

struct AttemptRun::Impl : std::enable_shared_from_this<Impl> {
  using Clock = std::chrono::steady_clock;

  Impl(asio::io_context& loop, Options given, std::function<void(AttemptResult)> to)
      : io(loop),
        options(std::move(given)),
        on_end(std::move(to)),
        begun(Clock::now()),
        supervisor(options.limits, options.ranks, begun),
        deadline(loop),
        view_deadline(loop),
        facts(static_cast<std::size_t>(options.ranks)),
        orders(static_cast<std::size_t>(options.ranks)) {}

  // Of look(), until the ranks have answered.
  struct View {
    std::function<void(Whereabouts)> on_seen;
    std::size_t nodes_awaited;
    PartView seen = {};
    std::set<int> asked = {};              // They have not answered.
    std::map<int, std::string> told = {};  // Collectives.
  };

  asio::io_context& io;
  const Options options;
  std::function<void(AttemptResult)> on_end;
  Clock::time_point begun, suspended_since;
  const WallTime begun_at = wall_time_now();
  AttemptSupervisor supervisor;
  asio::steady_timer deadline;
  std::unique_ptr<StoreServer> store;  // Of a program, or of several nodes.
  std::vector<RankBlock> blocks;       // Of each part.
  std::vector<std::string> hosts;      // By node.
  std::vector<std::shared_ptr<AttemptPart>> parts;
  int noted = 0;            // Ended or failed ranks.
  PartView seen;            // The ranks that did not end.
  int seen_awaited = 0;     // Nodes that still look at ranks which are about to be asked.
  Clock::time_point asked;  // When they began.
  std::optional<View> view;
  asio::steady_timer view_deadline;
  std::vector<RankFacts> facts;
  std::vector<int> orders;  // RankFacts::order, by rank.
  std::set<std::size_t> facts_awaited;
  bool finished = false, interrupted = false;

  AttemptPart& part_of(int rank) { return *parts[index_of(rank)]; }
  std::size_t index_of(int rank) const {
    std::size_t i = 0;
    while (rank >= blocks[i].first + blocks[i].count) ++i;
    return i;
  }

  void make_parts(const std::vector<TestNode*>& nodes) {
    blocks = rank_spread(options.ranks, static_cast<int>(nodes.size()));
    for (const TestNode* node : nodes) hosts.push_back(node->host());
    const auto opened = open_store();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      PartOptions its{.test = options.test,
                      .program = options.program,
                      .first = blocks[i].first,
                      .count = blocks[i].count,
                      .ranks = options.ranks,
                      .node = static_cast<int>(i),
                      .nodes = static_cast<int>(blocks.size()),
                      .backend = options.backend,
                      .seed = options.seed,
                      .first_key = options.first_key,
                      .store_host = store_address(),
                      .store_port = store ? store->port() : std::uint16_t{0},
                      .fresh = options.fresh,
                      .rank_under = options.rank_under,
                      .under = options.under,
                      .is_program = options.is_program,
                      .problem = opened ? "" : opened.error().message};
      parts.push_back(nodes[i]->make_part(std::move(its), handlers(i)));
    }
  }

  bool has_several_nodes() const { return blocks.size() > 1; }

  std::string store_address() const {
    return has_several_nodes() ? options.store_address : "127.0.0.1";
  }

  Result<void> open_store() {
    if (!options.is_program && !has_several_nodes()) return {};
    StoreServer::Options where{.same_user = true};
    if (has_several_nodes()) where = {.host = options.store_host, .same_user = false};
    auto opened = StoreServer::listen(io, where);
    if (!opened) return opened.error().with_context("open the store of the test");
    store = std::move(*opened);
    return {};
  }

  PartHandlers handlers(std::size_t index) {
    return {
        .on_noted = [this](int rank) { orders[static_cast<std::size_t>(rank)] = ++noted; },
        .on_over =
            [this](int rank, RankOutcome outcome) {
              collective_awaited_no_more(rank);
              step(RankSeenToEnd{rank, outcome});
            },
        .on_seen = [this](PartView its) { part_seen(std::move(its)); },
        .on_answered = [this](int rank) { step(RankAnswered{rank}); },
        .on_looked = [this](PartView its) { part_looked(std::move(its)); },
        .on_collective = [this](int rank, const std::string& text) { collective_told(rank, text); },
        .on_facts = [this,
                     index](std::vector<RankFacts> its) { part_ended(index, std::move(its)); },
        .waits = [this] { return store ? waits_of(store->status()) : WaitsOfProcesses{}; }};
  }

  void begin() {
    for (const auto& part : parts) part->begin();
    wait_for_deadline();
  }

  void step(const AttemptEvent& event) {
    if (finished) return;
    const auto actions = supervisor.step(event, Clock::now());
    ask_where(actions);
    for (const AttemptAction& action : actions) {
      if (const auto* rank = std::get_if<EndRank>(&action)) {
        seen_awaited = 0;
        part_of(rank->rank).end(rank->rank);
      } else if (const auto* how = std::get_if<FinishAttempt>(&action)) {
        finish(how->interrupted);
      }
    }
    wait_for_deadline();
  }

  void ask_where(const std::vector<AttemptAction>& actions) {
    std::map<std::size_t, std::vector<int>> ranks;
    for (const AttemptAction& action : actions) {
      if (const auto* ask = std::get_if<AskWhere>(&action)) {
        ranks[index_of(ask->rank)].push_back(ask->rank);
      }
    }
    if (ranks.empty()) return;
    asked = Clock::now();
    seen_awaited = static_cast<int>(ranks.size());
    // Other nodes first: reading the stacks of this one takes time.
    for (auto part = ranks.rbegin(); part != ranks.rend(); ++part) {
      parts[part->first]->ask(part->second);
    }
  }

  // The time for this does not count against the ranks' time to answer.
  void part_seen(PartView its) {
    append(seen, std::move(its));
    if (seen_awaited == 0 || --seen_awaited > 0) return;
    asio::post(io, [self = shared_from_this(), time = Clock::now() - asked] {
      self->step(AttemptContinued{time});
    });
  }

  static void append(PartView& all, PartView its) {
    std::move(its.stacks.begin(), its.stacks.end(), std::back_inserter(all.stacks));
    std::move(its.sockets.begin(), its.sockets.end(), std::back_inserter(all.sockets));
  }

  // Stacks are those of ranks in order.
  static Whereabouts where_of(PartView all) {
    std::sort(all.stacks.begin(), all.stacks.end(),
              [](const RankStacks& a, const RankStacks& b) { return a.rank < b.rank; });
    return places_of(all.stacks);
  }

  void look(std::function<void(Whereabouts)> on_seen) {
    if (view || finished) return;  // The answer is on its way.
    view.emplace(View{.on_seen = std::move(on_seen), .nodes_awaited = parts.size()});
    view_deadline.expires_after(kSeenTimeout);
    wait_for_view();
    // As in ask_where().
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) (*part)->look();
  }

  void wait_for_view() {
    view_deadline.async_wait([self = shared_from_this()](error_code error) {
      if (!error && self->view) self->end_view();
    });
  }

  void part_looked(PartView its) {
    if (!view) return;
    view->asked.insert(its.asked.begin(), its.asked.end());
    append(view->seen, std::move(its));
    if (--view->nodes_awaited > 0) return;
    if (view->asked.empty()) return end_view();
    view_deadline.expires_after(kCollectivesTimeout);
    wait_for_view();
  }

  void collective_told(int rank, const std::string& text) {
    if (!view) return;
    view->told[rank] = text;
    collective_awaited_no_more(rank);
  }

  void collective_awaited_no_more(int rank) {
    if (!view || view->asked.erase(rank) == 0) return;
    if (view->asked.empty() && view->nodes_awaited == 0) end_view();
  }

  void end_view() {
    view_deadline.cancel();
    View done = std::move(*view);
    view.reset();
    for (const int rank : done.asked) done.told[rank] = "it does not answer";
    const std::string connections = connections_text(connection_lines(done.seen.sockets), "  ");
    Whereabouts where = where_of(std::move(done.seen));
    where.stacks += connections + collectives_text(done.told);
    done.on_seen(std::move(where));
  }

  bool all_are_known() const {
    return std::all_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part->all_are_known(); });
  }

  void suspend() {
    suspended_since = Clock::now();
    for (const auto& part : parts) part->suspend();
  }

  void continue_ranks() {
    for (const auto& part : parts) part->continue_ranks();
    const auto suspended_for = Clock::now() - suspended_since;
    begun += suspended_for;
    step(AttemptContinued{suspended_for});
  }

  void finish(bool was_interrupted) {
    finished = true;
    interrupted = was_interrupted;
    for (std::size_t i = 0; i < parts.size(); ++i) facts_awaited.insert(i);
    deadline.expires_after(kFactsTimeout);
    deadline.async_wait([self = shared_from_this()](error_code error) {
      if (!error && !self->facts_awaited.empty()) self->end();
    });
    for (const auto& part : parts) part->finish(was_interrupted);
  }

  void part_ended(std::size_t index, std::vector<RankFacts> its) {
    if (facts_awaited.erase(index) == 0) return;
    std::move(its.begin(), its.end(), facts.begin() + blocks[index].first);
    if (facts_awaited.empty()) end();
  }

  // Nodes that are still awaited have not told how their ranks ended.
  void end() {
    if (view) end_view();
    deadline.cancel();
    for (const std::size_t part : facts_awaited) {
      for (int rank = blocks[part].first; rank < blocks[part].first + blocks[part].count; ++rank) {
        facts[static_cast<std::size_t>(rank)].node_lost = "its node did not report how it ended";
      }
    }
    facts_awaited.clear();
    for (std::size_t rank = 0; rank < facts.size(); ++rank) facts[rank].order = orders[rank];
    const std::string connections = connections_text(connection_lines(seen.sockets), "  ");
    Whereabouts where = where_of(std::move(seen));
    if (!where.stacks.empty()) where.stacks += connections;
    AttemptResult result = judge(options.test, std::move(facts), interrupted, where.line);
    if (has_several_nodes()) {
      for (RankResult& rank : result.ranks) {
        rank.node = static_cast<int>(index_of(rank.rank));
        rank.host = hosts[static_cast<std::size_t>(rank.node)];
      }
    }
    result.where = std::move(where);
    result.attempt = options.attempt;
    result.began = begun_at;
    result.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
    asio::post(io, [self = shared_from_this(), result = std::move(result)]() mutable {
      if (self->on_end) self->on_end(std::move(result));
    });
  }

  void wait_for_deadline() {
    const auto next = supervisor.next_deadline();
    if (!next || finished) return;
    const bool looks = seen_awaited > 0;
    deadline.expires_at(looks ? asked + kSeenTimeout : *next);
    deadline.async_wait([self = shared_from_this(), looks](error_code error) {
      if (error) return;
      if (looks) self->seen_awaited = 0;
      self->step(AttemptTick{});
    });
  }
};

AttemptRun::AttemptRun(asio::io_context& io, const std::vector<TestNode*>& nodes, Options options,
                       std::function<void(AttemptResult)> on_end)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(on_end))) {
  impl_->make_parts(nodes);
}

AttemptRun::~AttemptRun() {
  impl_->finished = true;
  impl_->on_end = nullptr;
  impl_->deadline.cancel();
  impl_->view.reset();
  impl_->view_deadline.cancel();
  impl_->parts.clear();
}

void AttemptRun::begin() { impl_->begin(); }
void AttemptRun::interrupt() { impl_->step(AttemptInterrupted{}); }
void AttemptRun::look(std::function<void(Whereabouts)> on_seen) { impl_->look(std::move(on_seen)); }
void AttemptRun::suspend() { impl_->suspend(); }
bool AttemptRun::all_are_known() const { return impl_->all_are_known(); }
void AttemptRun::continue_ranks() { impl_->continue_ranks(); }
bool AttemptRun::has_reached_host(std::size_t node) const {
  return impl_->parts[node]->has_reached_host();
}
bool AttemptRun::has_lost_host(std::size_t node) const {
  return impl_->parts[node]->has_lost_host();
}
void AttemptRun::host_lost(std::size_t node) { impl_->parts[node]->host_lost(); }

}  // namespace distrun
