// Small text helpers shared by parsers, messages and reports.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The candidate nearest to `word` by edit distance, or "" when none is near enough to be meant.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

// " (did you mean 'x'?)", or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Text safe inside HTML elements and quoted attributes.
std::string escape_html(std::string_view text);

// The text with invalid UTF-8 replaced by U+FFFD and without control characters (C0, C1, line
// separators, marks of direction; line feed and tab stay): safe for terminals and JSON.
std::string printable(std::string_view text);

bool is_utf8(std::string_view text);

// Every byte that is not printable ASCII as \xNN.
std::string escaped(std::string_view text);

// With spaces for line feeds: a library's error may have several lines.
std::string one_line(std::string text);

// "2026-11-21T02:31:14Z"
std::string utc_now();

// Seconds from one such time to another; nullopt where either is none.
std::optional<double> seconds_between(const std::string& from, const std::string& to);

// The path without "." parts, doubled slashes and a slash at its end: "./corpus/" is "corpus". ".."
// stays, for what it leads to depends on links.
std::string plain_path(const std::string& path);

// The text with the paths inside `directory` written from there: "failed: r/logs/a" is "failed:
// logs/a" within "r".
std::string paths_within(std::string text, const std::string& directory);

// 16 hex digits of FNV-1a 64: names content, not a defence against an adversary.
std::string content_hash(std::string_view bytes);

// Decimals that give three digits from 1 up, two behind the point below: of a column's largest.
int decimals_of_three(double value);
// "4.56", "12.0", "123": figures of one table have the same digits.
std::string three_digits(double value);

// "12.3 MiB"
std::string human_bytes(double bytes);

// "1m 23s", "4.50 s", "12.3 ms", "7.89 us"
std::string human_seconds(double seconds);

} // namespace assay
