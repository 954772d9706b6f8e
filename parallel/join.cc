#include "parallel/join.h"

#include <exception>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "backends/collectives.h"
#include "backends/process_group.h"
#include "backends/run_collective.h"
#include "parallel/join_failure.h"

namespace distrun {

namespace {

// So many iterations behind the others a rank warns.
constexpr int kSkewToWarnOf = 1000;

[[noreturn]] void throw_uneven_inputs(const std::string& text) {
  throw UnevenInputsError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, text);
}

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
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
  TORCH_CHECK_TYPE(false, "join: the argument ", name, " is of the type ",
                   values_.at(name).type()->str(), ", which is not what its joinable takes");
}

Work Joinable::notify_join_context() {
  if (!joining_ || !is_first_) return {};
  const Group group = join_process_group();
  const auto device = at::TensorOptions().device(join_device());
  Work work = all_reduce(at::ones({1}, device), ReduceOp::SUM, {.group = group, .async_op = true});
  // Before anything else is: were a peer gone, this rank would wait for one that waits for this.
  work.wait();
  if (throws_) {
    const at::Tensor joined = at::zeros({1}, device);
    all_reduce(joined, ReduceOp::SUM, {.group = group});
    if (joined.item<float>() != 0) {
      throw_uneven_inputs(
          "Detected at least one rank that exhausted inputs. Throwing across all ranks.");
    }
  }
  return work;
}

// While it lives, the joinables tell of their iterations.
class Join::Scope {
 public:
  explicit Scope(const Join& join) : joinables_(join.joinables_) {
    for (const Joinable& one : joinables_) {
      TORCH_CHECK_VALUE(!one.joining_, "join: a joinable is in another join that is running");
    }
    for (Joinable& one : joinables_) {
      one.joining_ = true;
      one.is_first_ = &one == &joinables_.front().get();
      one.throws_ = join.config_.throw_on_early_termination;
    }
  }
  ~Scope() {
    for (Joinable& one : joinables_) one.joining_ = false;
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
    TORCH_CHECK_VALUE(seen.insert(&one).second, "join: a joinable is there twice");
    TORCH_CHECK_VALUE(
        one.join_process_group().process_group() == first.process_group(),
        "join: joinables are of several groups; expected all of one: join one after the other");
  }
  for (Joinable& one : joinables_) hooks_.push_back(one.join_hook(config_.arguments));
  for (const std::string& name : config_.arguments.unread()) {
    TORCH_CHECK_VALUE(false, "join: no joinable knows the argument ", name);
  }
  group_ = internal::pinned(first);
}

void Join::run(const std::function<void()>& body) {
  if (!config_.enable) {
    body();
    return;
  }
  const Scope scope(*this);
  try {
    body();
    shadow_the_others();
  } catch (const UnevenInputsError&) {
    throw;
  } catch (...) {
    const std::string own = text_of(std::current_exception());
    const auto other = internal::tell_join_failure(group_, own);
    TORCH_CHECK_WITH(DistError, !other, "join on rank ", get_rank(), ": ", *other,
                     "; seen here as: ", own);
    throw;
  }
}

double Join::ranks_not_joined() const {
  const auto device = at::TensorOptions().device(joinables_.front().get().join_device());
  const at::Tensor count = at::zeros({1}, device);
  all_reduce(count, ReduceOp::SUM, {.group = group_});
  return count.item<double>();
}

void Join::shadow_the_others() {
  int iterations = 0;
  while (ranks_not_joined() != 0) {
    if (config_.throw_on_early_termination) {
      const auto device = at::TensorOptions().device(joinables_.front().get().join_device());
      all_reduce(at::ones({1}, device), ReduceOp::SUM, {.group = group_});
      throw_uneven_inputs(c10::str("Rank ", get_rank(group_), " exhausted all inputs."));
    }
    for (const auto& hook : hooks_) hook->main_hook();
    if (++iterations == kSkewToWarnOf) {
      TORCH_WARN("join: rank ", get_rank(), " has at least ", kSkewToWarnOf,
                 " inputs fewer than others; it works for them since: share the data more evenly");
    }
  }
  for (const auto& hook : hooks_) hook->post_hook(iterations == 0);
}

}  // namespace distrun
