// Words of a command line as a POSIX shell reads them back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The text as one word: itself where no character means anything to a shell, else in single quotes.
std::string shell_word(std::string_view text);

// The words of a command line, separated by spaces; shell_words() reads them back.
std::string shell_line(const std::vector<std::string>& words);

// A path as an argument of a program, in no shell: "./-d" for one that would be read as an option.
std::string path_argument(std::string_view path);

// The same as one word of a shell.
std::string shell_path(std::string_view path);

// The words of a line that shell_word() made, separated by spaces.
std::vector<std::string> shell_words(std::string_view line);

// The commands of a line that "; " separates, each as it was written.
std::vector<std::string> shell_commands(std::string_view line);

// What a shell takes a word on a command line for, quotes of both kinds and backslashes removed.
// The last quote may still be open, as under a cursor.
std::string without_quotes(std::string_view word);

} // namespace assay
