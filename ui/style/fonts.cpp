#include "ui/style/fonts.h"

#include "imgui.h"

// The files' bytes, put into the program by the assembler: a source array of 1 MB would take a
// minute to compile.
// NOLINTBEGIN(bugprone-macro-parentheses,readability-identifier-naming): names of symbols
#define ASSAY_EMBED(name, file)                                                                    \
  __asm__(".pushsection .rodata\n.balign 16\n.global " #name "\n" #name ":\n.incbin \"" file       \
          "\"\n.global " #name "_end\n" #name "_end:\n.popsection\n");                             \
  extern "C" const unsigned char name[], name##_end[]

ASSAY_EMBED(assay_font, ASSAY_FONT);
ASSAY_EMBED(assay_fallback_font, ASSAY_FALLBACK_FONT);
// NOLINTEND(bugprone-macro-parentheses,readability-identifier-naming)

namespace assay {
namespace {

void add_font(const unsigned char* begin, const unsigned char* end, bool merge) {
  ImFontConfig config;
  config.FontDataOwnedByAtlas = false;
  config.MergeMode = merge; // ImGui does not write through the pointer
  ImGui::GetIO().Fonts->AddFontFromMemoryTTF(
      const_cast<unsigned char*>(begin), static_cast<int>(end - begin), 0.0F, &config);
}

} // namespace

void add_fonts() {
  add_font(assay_font, assay_font_end, false);
  add_font(assay_fallback_font, assay_fallback_font_end, true);
  ImGui::GetStyle().FontSizeBase = kBaseFontSize;
}

} // namespace assay
