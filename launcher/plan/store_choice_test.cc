#include "launcher/plan/store_choice.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(StoreChoiceTest, AcceptsTcp) {
  EXPECT_EQ(parse_store_choice("tcp", "/here").value().kind, StoreChoice::Kind::kTcp);
}

TEST(StoreChoiceTest, MakesFilePathAbsolute) {
  const auto path_of = [](const char* text) {
    const StoreChoice store = parse_store_choice(text, "/here").value();
    EXPECT_EQ(store.kind, StoreChoice::Kind::kFile) << text;
    return store.path;
  };
  EXPECT_EQ(path_of("file:meet"), "/here/meet");
  EXPECT_EQ(path_of("file:../a b"), "/here/../a b");
  EXPECT_EQ(path_of("file:/scratch/meet"), "/scratch/meet");
  EXPECT_EQ(path_of("file:///scratch/meet"), "/scratch/meet");
}

TEST(StoreChoiceTest, RejectsUnknownValuesNamingBothForms) {
  for (const std::string text : {"", "TCP", "file", "file:", "etcd", "tcp:29500", "/meet"}) {
    const Error error = parse_store_choice(text, "/here").error();
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << text;
    EXPECT_EQ(error.message, "'" + text + "' is neither 'tcp' nor 'file:PATH'");
  }
}

TEST(StoreChoiceTest, RejectsPathsThatDoNotFitInAUrl) {
  EXPECT_EQ(parse_store_choice("file:a?", "/here").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(parse_store_choice("file:a", "/he#re").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(parse_store_choice("file:a", "").error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace distrun
