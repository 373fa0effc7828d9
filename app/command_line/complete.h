// What a shell offers at the end of a command line, from the parser's own definitions.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace assay {

// Values by the name of an option's value ("CELL"), for the words typed so far; empty: none known.
// A name with alternatives, "CELL|disturbed", is asked for each; one that ends in "[,…]" is a list,
// and is asked without that end.
using ValueSource = std::function<std::vector<std::string>(const std::string& name,
                                                           const std::vector<std::string>& words)>;

// Lines for the scripts of `assay completion`: first ":files" or ":directories" where the shell's
// own completion of names belongs, then one candidate a line, with a tab before its description.
// The last word is the one under the cursor.
std::string
complete_words(const CLI::App& app, std::vector<std::string> words, const ValueSource& values);

// Programs behind `assay` answer its questions: `--complete WORD…` and `--manual`. True: answered.
bool answer_assay(
    const CLI::App& app,
    int argc,
    const char* const* argv,
    const ValueSource& values = [](const auto&, const auto&) {
      return std::vector<std::string>();
    });

} // namespace assay
