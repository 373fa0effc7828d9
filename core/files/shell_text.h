// Words of a command line as a POSIX shell reads them back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The text as one word: itself where no character means anything to a shell, else in single quotes.
std::string shell_word(std::string_view text);

// The words of a line that shell_word() made, separated by spaces.
std::vector<std::string> shell_words(std::string_view line);

} // namespace assay
