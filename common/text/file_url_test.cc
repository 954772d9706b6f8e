#include "common/text/file_url.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

// Python's rendezvous reads the same paths.
TEST(FileUrlTest, PathSurvivesARoundTrip) {
  for (const std::string path :
       {"/store", "/a b/c", "/100%/%20", "/a;b=c&d@e:[f]", "/\u00e9", "/a//b"}) {
    EXPECT_EQ(file_url(path).value(), "file://" + path);
    EXPECT_EQ(path_of_file_url("file://" + path).value(), path);
  }
}

TEST(FileUrlTest, LeadingSlashesBecomeOne) {
  EXPECT_EQ(file_url("//host/store").value(), "file:///host/store");
  EXPECT_EQ(file_url("///").value(), "file:///");
}

TEST(FileUrlTest, RefusesPathsThatPythonReadsDifferently) {
  for (const std::string path :
       {"", "store", "./store", "/a?b", "/a#b", "/a\tb", "/a\nb", "/a\rb"}) {
    EXPECT_EQ(file_url(path).error().kind, ErrorKind::kInvalidArgument) << path;
    EXPECT_EQ(path_of_file_url("file://" + path).error().kind, ErrorKind::kInvalidArgument) << path;
  }
  EXPECT_EQ(file_url("a").error().message, "'a' is not an absolute path");
  EXPECT_EQ(file_url("/a?").error().message,
            "'/a?' has a '?', '#', tab or line break, which a file:// URL cannot carry");
}

TEST(FileUrlTest, RefusesOtherUrls) {
  for (const std::string url : {"", "/store", "tcp://host:1", "FILE:///store", "file:/store"}) {
    EXPECT_EQ(path_of_file_url(url).error().message, "'" + url + "' is not a file:// URL");
  }
}

}  // namespace
}  // namespace distrun
