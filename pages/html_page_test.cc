#include "pages/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HtmlPageTest, IsOneFileThatMayLoadNothing) {
  const std::string page = html_page(Page::kTests, "two failed", R"({"tests": []})");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_THAT(page, HasSubstr("<title>two failed</title>"));
  EXPECT_THAT(page, HasSubstr(R"(id="data">{"tests": []}</script>)"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* from_elsewhere : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(from_elsewhere)));
  }
  EXPECT_THAT(page, Not(HasSubstr("@PAGE_")));
}

// Of an event `stacks_read`.
TEST(HtmlPageTest, TheRunShowsAllEvidenceOfAHang) {
  const std::string page = html_page(Page::kRun, "", "{}");
  for (const char* text : {"'Collectives: ' + one.collectives", "'NCCL: ' + one.nccl",
                           "'Where the workers were: ' + one.where"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(HtmlPageTest, ProgramOutputCannotBecomeMarkup) {
  const auto scripts = count_of(html_page(Page::kTests, "", "{}"), "<script");
  const std::string page = html_page(Page::kTests, "<script>a()</script>\"&",
                                     R"({"output": "</script><script>b()</script><!--"})");
  EXPECT_EQ(count_of(page, "<script"), scripts);
  EXPECT_THAT(page, HasSubstr("<title>&lt;script&gt;a()&lt;/script&gt;&quot;&amp;</title>"));
  EXPECT_THAT(page, HasSubstr(R"(\u003c/script>\u003cscript>b()\u003c/script>\u003c!--)"));
}

TEST(HtmlPageTest, KeepsThePagesMarksInText) {
  EXPECT_THAT(html_page(Page::kTests, "@PAGE_DATA@", R"("@PAGE_SCRIPT@")"),
              HasSubstr(R"("@PAGE_SCRIPT@"</script>)"));
}

}  // namespace
}  // namespace distrun
