// Things to click and type into that several screens share.
#pragma once

#include <string>
#include <string_view>

#include "ui/style/theme.h"

namespace assay {

struct Workspace;

// A one-line text field over a string; true when Enter was pressed.
bool input_text(const char* id, const char* hint, std::string& value, float width);

// Words that react to a click, on one line, cut where they do not fit.
bool link(Color color, std::string_view words);

// Moves the current window by what "Scroll down" and "Scroll up" asked for.
void scroll_by_keys(Workspace& workspace);

// Notes where the next item is drawn, so that scripts can click it by name.
void mark_target(Workspace& workspace, std::string id);
void mark_target(Workspace& workspace, std::string id, float x, float y); // at a point

} // namespace assay
