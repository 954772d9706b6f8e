#include "common/os/signal_list.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SignalListTest, NamesWithAndWithoutSigAndNumbersAreTaken) {
  EXPECT_THAT(parse_signals("SIGTERM,int, usr1 ,12").value(),
              ElementsAre(SIGTERM, SIGINT, SIGUSR1, SIGUSR2));
  EXPECT_THAT(parse_signals("").value(), IsEmpty());
}

TEST(SignalListTest, OneThatIsNamedTwiceCountsOnce) {
  EXPECT_THAT(parse_signals("USR1,SIGUSR1,10").value(), ElementsAre(SIGUSR1));
}

TEST(SignalListTest, WhatIsNoSignalIsNamed) {
  for (const auto* text : {"SIGFOO", "TERM,,INT", "0", "65", "TERM INT", "-9"}) {
    EXPECT_TRUE(parse_signals(text).has_error()) << text;
  }
  EXPECT_THAT(parse_signals("TERM,SIGFOO").error().message, HasSubstr("'SIGFOO' is not a signal"));
}

TEST(SignalListTest, WhatNobodyCanTakeUpIsRefused) {
  for (const auto* text :
       {"KILL", "SIGSTOP", "SEGV", "CHLD", "CONT", "TSTP", "TTOU", "PIPE", "XFSZ", "32", "33"}) {
    EXPECT_THAT(parse_signals(text).error().message, HasSubstr("cannot be handled or forwarded"))
        << text;
  }
}

TEST(SignalListTest, RealTimeSignalsAreTaken) {
  EXPECT_THAT(parse_signals("34,64").value(), ElementsAre(34, 64));
}

TEST(SignalListTest, TheTextIsThatOfPython) {
  EXPECT_EQ(signals_text({SIGTERM, SIGUSR1}), "SIGTERM,SIGUSR1");
  EXPECT_EQ(signals_text({}), "");
}

}  // namespace
}  // namespace distrun
