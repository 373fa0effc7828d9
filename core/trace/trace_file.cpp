// Names of trace files, and finding them.
#include "core/trace/trace_file.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <tuple>

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".sqlite";

// The number before the next '.', which is taken off; -1 when there is none.
std::int64_t take_number(std::string_view& name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return -1;
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + dot, value);
  if (error != std::errc() || end != name.data() + dot) return -1;
  name.remove_prefix(dot + 1);
  return value;
}

// 32-bit FNV-1a: names that look alike without their odd characters stay apart.
std::uint32_t fnv1a(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

} // namespace

std::string trace_file_name(std::int64_t launch, int rank, std::string_view variant) {
  std::string name;
  for (const char c : variant) {
    const bool fit = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                     std::string_view("_-+=.").find(c) != std::string_view::npos;
    name += fit ? c : '_';
  }
  if (name != variant) name += fmt::format("-{:08x}", fnv1a(variant));
  return fmt::format("{}/{}.{}.{}{}", kTraceFolder, launch, rank, name, kSuffix);
}

std::vector<std::string> list_traces(const std::string& directory) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string, std::string>> found;
  std::error_code none; // a directory without traces has none
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(directory) / kTraceFolder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kSuffix)) continue;
    std::string_view rest = name;
    const std::int64_t launch = take_number(rest), rank = take_number(rest);
    found.emplace_back(launch, rank, std::string(rest), entry.path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& trace : found) paths.push_back(std::move(std::get<3>(trace)));
  return paths;
}

} // namespace assay
