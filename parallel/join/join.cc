#include "distrun/join.h"

#include <ATen/ops/full.h>
#include <c10/util/StringUtil.h>

#include "backends/group/run_collective.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/failure/group_failure.h"

namespace distrun {

namespace {

// A joined rank warns after this many iterations of the others.
constexpr int kSkewToWarnOf = 1000;

[[noreturn]] void throw_uneven_inputs(const std::string& text) {
  throw UnevenInputsError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text);
}

at::Tensor on_device_of(const Joinable& joinable, double number) {
  return at::full({1}, number, joinable.join_device());
}

}  // namespace

std::vector<std::string> JoinArguments::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) {
    if (!read_.contains(name)) names.push_back(name);
  }
  return names;
}

void JoinArguments::throw_wrong_type(const std::string& name) const {
  TORCH_CHECK_TYPE(false, "join: the argument ", name, " has the type ",
                   values_.at(name).type()->str(), ", which its joinable does not accept");
}

Work Joinable::notify_join_context() {
  if (!part_.is_joining || !part_.is_first) return {};
  const Group group = join_process_group();
  Work work = all_reduce(on_device_of(*this, 1), ReduceOp::SUM, {.group = group, .async_op = true});
  // If a peer is lost, this rank must not wait in the next collective for a rank that still waits
  // in this one.
  work.wait();
  if (part_.throws) {
    const at::Tensor joined = on_device_of(*this, 0);
    all_reduce(joined, ReduceOp::SUM, {.group = group});
    if (joined.item<float>() != 0) {
      part_.has_thrown = true;
      throw_uneven_inputs(
          "Detected at least one rank that exhausted inputs. Throwing across all ranks.");
    }
  }
  return work;
}

// Joinables announce their iterations while it lives.
class Join::Scope {
 public:
  explicit Scope(const Join& join) : joinables_(join.joinables_) {
    for (const Joinable& one : joinables_) {
      TORCH_CHECK_VALUE(!one.is_joining(), "join: a joinable is in another join that is running");
    }
    for (Joinable& one : joinables_) {
      one.part_.is_joining = true;
      one.part_.is_first = &one == &joinables_.front().get();
      one.part_.throws = join.config_.throw_on_early_termination;
      one.part_.has_thrown = false;
    }
  }
  ~Scope() {
    for (Joinable& one : joinables_) one.part_.is_joining = false;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const std::vector<std::reference_wrapper<Joinable>>& joinables_;
};

Join::Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinConfig config)
    : joinables_(std::move(joinables)), config_(std::move(config)) {
  TORCH_CHECK_VALUE(!joinables_.empty(), "join: expected at least one joinable");
  const Group first = joinables_.front().get().join_process_group();
  std::set<const Joinable*> seen;
  for (Joinable& one : joinables_) {
    TORCH_CHECK_VALUE(seen.insert(&one).second, "join: a joinable is listed twice");
    TORCH_CHECK_VALUE(
        one.join_process_group().process_group() == first.process_group(),
        "join: joinables belong to several groups; expected one group: run one Join per group");
  }
  group_ = internal::pinned(first);
  rank_ = get_rank();
}

Join::Hooks Join::make_hooks() const {
  Hooks hooks;
  for (Joinable& one : joinables_) {
    hooks.push_back(one.join_hook(config_.arguments));
    TORCH_CHECK_VALUE(hooks.back(),
                      "join: the join_hook() of a joinable returned null; expected a JoinHook");
  }
  const std::vector<std::string> unread = config_.arguments.unread();
  TORCH_CHECK_VALUE(unread.empty(), "join: no joinable reads the argument ",
                    c10::Join(", ", unread));
  return hooks;
}

void Join::run(const std::function<void()>& body) {
  if (!config_.enable) {
    body();
    return;
  }
  const Scope scope(*this);
  try {
    const Hooks hooks = make_hooks();
    body();
    if (joinables_.front().get().part_.has_thrown) {
      throw_uneven_inputs("join: the body caught the UnevenInputsError; it must let it propagate");
    }
    shadow_the_others(hooks);
  } catch (...) {
    // All ranks know of uneven inputs here, but not of those in an inner join.
    if (joinables_.front().get().part_.has_thrown) throw;
    internal::rethrow_as_reported("join", group_, rank_);
  }
}

double Join::ranks_not_joined() const {
  const at::Tensor count = on_device_of(joinables_.front(), 0);
  all_reduce(count, ReduceOp::SUM, {.group = group_});
  return count.item<double>();
}

void Join::shadow_the_others(const Hooks& hooks) {
  int iterations = 0;
  while (ranks_not_joined() != 0) {
    if (config_.throw_on_early_termination) {
      all_reduce(on_device_of(joinables_.front(), 1), ReduceOp::SUM, {.group = group_});
      joinables_.front().get().part_.has_thrown = true;
      throw_uneven_inputs(c10::str("Rank ", get_rank(group_), " exhausted all inputs."));
    }
    for (const auto& hook : hooks) hook->main_hook();
    if (++iterations == kSkewToWarnOf) {
      TORCH_WARN("join: rank ", get_rank(), " has at least ", kSkewToWarnOf,
                 " fewer inputs than other ranks and only takes part in their collectives; "
                 "distribute the data more evenly");
    }
  }
  for (const auto& hook : hooks) hook->post_hook(iterations == 0);
}

}  // namespace distrun
