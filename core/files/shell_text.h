// Words of a command line as a POSIX shell reads them back.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// The text as one word: itself where no character means anything to a shell, else in single quotes.
std::string shell_word(std::string_view text);

} // namespace assay
