// Settings that outlive a session: theme, text size, recent files. In
// $XDG_CONFIG_HOME/assay/settings.json, never beside a results directory.
#pragma once

#include <string>

namespace assay {

struct Workspace;

// $XDG_CONFIG_HOME/assay/settings.json, or below ~/.config; "" without a home.
std::string settings_path();
// A missing or unreadable file leaves the workspace as it is; the reason goes to its status.
void load_settings(Workspace& workspace, const std::string& path);
// As a whole or not at all. The reason why not, or "".
std::string save_settings(const Workspace& workspace, const std::string& path);

} // namespace assay
