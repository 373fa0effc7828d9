// Columns of text on a terminal.
#include "experiments/report/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace text_layout_test {

using testing::ElementsAre;

TEST(TextLayout, WideLettersTakeTwoColumnsAndMarksNone) {
  EXPECT_EQ(display_width("plain"), 5u);
  EXPECT_EQ(display_width("\u00e9\u2192"), 2u);          // e acute, an arrow
  EXPECT_EQ(display_width("\u2705 +5 %"), 7u);           // a check mark emoji
  EXPECT_EQ(display_width("\u6e2c\u8a66"), 4u);          // two Chinese letters
  EXPECT_EQ(display_width("e\u0301"), 1u);               // e and a combining accent
  EXPECT_EQ(display_width("\xff\xfe"), 2u);              // no UTF-8
  EXPECT_EQ(display_width(std::string("\xe2\x9c")), 2u); // cut off
}

TEST(TextLayout, LinesOfWideLettersFit) {
  EXPECT_EQ(cut_to("\u6e2c\u8a66\u6e2c\u8a66", 5), "\u6e2c..");
  EXPECT_EQ(cut_to("\u6e2c\u8a66", 4), "\u6e2c\u8a66");
  EXPECT_THAT(wrap_words("\u2705 \u2705 ab", 5), ElementsAre("\u2705 \u2705", "ab"));
  EXPECT_THAT(wrap_words("\u6e2c\u8a66\u6e2c", 5), ElementsAre("\u6e2c\u8a66", "\u6e2c"));
  EXPECT_THAT(wrap_words("\u6e2c\u8a66", 1), ElementsAre("\u6e2c", "\u8a66"));
}

} // namespace text_layout_test
} // namespace assay
