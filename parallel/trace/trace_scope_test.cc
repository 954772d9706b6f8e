// Start and end of a recording: threads, exceptions, nested traces; inputs that a replay rejects.
#include <future>
#include <stdexcept>
#include <thread>

#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include "parallel/trace/test/trace_fixture.h"

namespace distrun {
namespace {

TEST(TraceTest, RecordsThreadsThatTakeOverTheThreadLocalState) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor product;
        const at::ThreadLocalState state;
        std::thread([&] {
          const at::ThreadLocalStateGuard guard(state);
          product = x[0] * 2;
        }).join();
        std::thread([&] { static_cast<void>(product - 1); }).join();
        return {product + 1};
      },
      {numbers()}, {numbers(2)});
  EXPECT_EQ(names_of(its), "arg0_1 mul add output");
}

TEST(TraceTest, DoesNotRecordAThreadThatOutlivesTheTrace) {
  std::promise<void> over;
  std::thread late;
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::ThreadLocalState state;
        late = std::thread([state, y = x[0], is_over = over.get_future()] {
          const at::ThreadLocalStateGuard guard(state);
          is_over.wait();
          EXPECT_TRUE((y * 2).equal(numbers() * 2));
        });
        return {x[0] + 1};
      },
      {numbers()});
  over.set_value();
  late.join();
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, RecordsAReplayInATrace) {
  const Trace inner = trace([](const Tensors& x) -> Tensors { return {x[0] * 2}; }, {numbers()});
  const Trace outer =
      expect_replays([&](const Tensors& x) -> Tensors { return {inner.replay({x[0] + 1})[0] - 3}; },
                     {numbers()}, {numbers(4)});
  EXPECT_EQ(names_of(outer), "arg0_1 add mul sub output");
}

TEST(TraceTest, RecordsOnTwoThreadsAtTheSameTime) {
  const auto make = [](double factor) {
    return [factor](const Tensors& x) -> Tensors {
      at::Tensor value = x[0];
      for (int i = 0; i < 200; ++i) value = value * factor + 1;
      return {value};
    };
  };
  std::thread other([&] { expect_replays(make(0.5), {numbers()}, {numbers(1)}); });
  const Trace its = expect_replays(make(0.25), {numbers()}, {numbers(2)});
  other.join();
  EXPECT_EQ(its.graph().nodes().size(), 402U);
}

TEST(TraceTest, EndsTheRecordingIfTheFunctionThrows) {
  const auto before = c10::impl::tls_local_dispatch_key_set();
  EXPECT_THROW(trace(
                   [](const Tensors& x) -> Tensors {
                     static_cast<void>(x[0] * 2);
                     throw std::runtime_error("no more");
                   },
                   {numbers()}),
               std::runtime_error);
  const auto after = c10::impl::tls_local_dispatch_key_set();
  EXPECT_EQ(after.included_, before.included_);
  EXPECT_EQ(after.excluded_, before.excluded_);
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] + 1}; }, {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, DoesNotRecordAnOperatorThatThrows) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        EXPECT_ANY_THROW(x[0].view({5}));
        return {x[0] + 1};
      },
      {numbers()}, {numbers(1)});
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, RejectsATraceInATrace) {
  const Function inner = [](const Tensors& x) -> Tensors { return x; };
  EXPECT_EQ(error_of([&] {
              trace([&](const Tensors& x) -> Tensors { return trace(inner, x).replay(x); },
                    {numbers()});
            }),
            "trace: this thread is already recording a trace; end that one first");
  trace(inner, {numbers()});
}

TEST(TraceTest, NamesTheInputThatDiffersFromTheRecording) {
  const Trace its =
      trace([](const Tensors& x) -> Tensors { return {x[0] + x[1]}; }, {numbers(), numbers()});
  const at::Tensor x = numbers();
  const auto error = [&](const Tensors& inputs) { return error_of([&] { its.replay(inputs); }); };
  EXPECT_EQ(error({x}), "ValueError: replay: there are 1 inputs; expected 2, as in the recording");
  EXPECT_EQ(error({x, numbers().t()}),
            "ValueError: replay: inputs[1] has sizes [3, 2]; expected [2, 3], as in the recording");
  EXPECT_EQ(error({x, numbers().to(at::kDouble)}),
            "ValueError: replay: inputs[1] has dtype Double; expected Float, as in the recording");
  EXPECT_EQ(error({x, numbers().to(at::kMeta)}),
            "ValueError: replay: inputs[1] has device meta; expected cpu, as in the recording");
  EXPECT_EQ(error({at::arange(6, at::kFloat).view({3, 2}).t(), x}),
            "ValueError: replay: inputs[0] has strides [1, 2]; expected [3, 1], as in the "
            "recording");
  EXPECT_EQ(error({numbers().to_sparse(), x}),
            "ValueError: replay: inputs[0] has layout Sparse; expected Strided, as in the "
            "recording");
  EXPECT_EQ(error({at::_neg_view(numbers()), x}),
            "ValueError: replay: inputs[0] has another conjugate or negative bit than in the "
            "recording; clone() it");
  EXPECT_EQ(error({at::Tensor(), x}),
            "ValueError: replay: inputs[0] is not defined; expected a tensor");
  EXPECT_EQ(error({x, x}),
            "ValueError: replay: inputs[1] shares memory with inputs[0]; expected separate memory: "
            "clone() it");
  EXPECT_EQ(error_of([&] {
              trace([](const Tensors& all) { return all; }, {x, x.view({6})});
            }),
            "ValueError: trace: inputs[1] shares memory with inputs[0]; expected separate memory: "
            "clone() it");
}

}  // namespace
}  // namespace distrun
