// What a cell names: its optimization and levels, its training data and tokenizer.
#include <filesystem>
#include <set>

#include "core/file_kind.h"
#include "core/text.h"
#include "experiments/plan/matrix/key_comparison.h"
#include "experiments/plan/planner.h"
#include "model/config/key_variants.h"

namespace assay {

namespace {

// Where the matrix gives the path of the training data, or "".
std::string place_of_data(const Matrix& matrix, const MatrixCell& cell) {
  std::vector<const std::vector<ConfigValue>*> places;
  for (const MatrixVariant& variant : cell.variants) places.push_back(&variant.set);
  places.insert(places.end(), {&cell.set, &matrix.base});
  for (const std::vector<ConfigValue>* values : places)
    for (const ConfigValue& value : *values)
      if (value.key == "data" && value.in_file) return value.where;
  return "";
}

} // namespace

std::string wrong_data(const std::string& data, const std::string& place) {
  if (data.empty()) return "no training data: give --data PATH, or `data` under [base]";
  const std::string path = printable(data),
                    of = "the training data" + (place.empty() ? "" : ", " + place);
  const bool in_file = !place.empty() && !place.starts_with("--");
  std::error_code ignored;
  if (const std::string why = why_unreachable(data); !why.empty())
    return fmt::format("{}: {} ({})", path, why, of);
  if (!std::filesystem::exists(data, ignored))
    return fmt::format("{}: no such file or directory ({}){}{}",
                       path,
                       of,
                       place.starts_with("--") ? "; correct its path" : "; name others with --data",
                       in_file && std::filesystem::path(data).is_relative()
                           ? "; a relative path is read from the current directory"
                           : "");
  if (const std::string why = why_no_plain_file(data);
      !why.empty() && !std::filesystem::is_directory(data, ignored))
    return fmt::format("{}: {}; training data are files or a directory", path, why);
  if (std::filesystem::is_empty(data, ignored))
    return fmt::format("{}: is empty ({}); put text into it, or name others with --data", path, of);
  return "";
}

// The row that a cell's variants are; nullptr where they make none.
const Optimization* Planner::row_of_variants(const MatrixCell& cell) {
  Result<Optimization> row = assay::row_of_variants(cell);
  if (!row) {
    problems_.add(row.error().message);
    return nullptr;
  }
  own_rows_.push_back(std::move(*row));
  return &own_rows_.back();
}

const Optimization* Planner::checked_row(MatrixCell& cell) {
  if (!cell.variants.empty() || cell.design) return row_of_variants(cell);
  const Result<const Optimization*> row = optimizations().lookup(cell.optimization);
  if (!row) {
    problems_.add(fmt::format(
        "{}: {}; `assay list` shows all", cell.place({"optimization"}), row.error().message));
    return nullptr;
  }
  const std::set<std::string> switched = switched_keys(**row);
  for (const ConfigValue& value : cell.set)
    if (switched.contains(value.key))
      problems_.add(
          fmt::format("{}: '{}' is what optimization '{}' switches; remove it, or choose `levels`",
                      value.where,
                      value.key,
                      cell.optimization));
  check_levels(cell, **row);
  return *row;
}

void Planner::check_levels(MatrixCell& cell, const Optimization& row) {
  std::vector<std::string> names;
  for (const Level& level : row.levels) names.push_back(level.name);
  const auto unknown = [&](const std::string& level, const std::string& key) {
    if (row.level(level) != nullptr) return false;
    problems_.add(fmt::format("{}: unknown level '{}' of optimization '{}'{}; it has: {}",
                              cell.place({key}),
                              printable(level),
                              cell.optimization,
                              did_you_mean(level, names),
                              fmt::join(names, ", ")));
    return true;
  };
  if (!cell.reference.empty() && unknown(cell.reference, "reference")) cell.reference = "";
  const bool chosen = !cell.levels.empty();
  std::erase_if(cell.levels,
                [&](const std::string& level) { return unknown(level, "levels/" + level); });
  if (chosen && cell.levels.empty()) cell.levels = {names.front()}; // and not all of the row
}

void Planner::check_data(const TrainConfig& config, const MatrixCell& cell) {
  std::error_code ignored;
  const std::string wrong = wrong_data(config.data, place_of_data(matrix_, cell));
  const bool absent =
      why_unreachable(config.data).empty() && (!std::filesystem::exists(config.data, ignored) ||
                                               std::filesystem::is_empty(config.data, ignored));
  if (absent && !options_.needs_data)
    lacks(config.data.empty() ? "training data: --data PATH" : "its training data: " + wrong);
  else if (!wrong.empty())
    problems_.add(wrong);
  if (config.tokenizer != "bytes" && !std::filesystem::exists(config.tokenizer, ignored)) {
    const std::string remedy =
        "make it with `assay tokenizer train`, or --set base.tokenizer=bytes";
    if (options_.needs_data)
      problems_.add(
          fmt::format("{}: no such file (the tokenizer): {}", printable(config.tokenizer), remedy));
    else
      lacks(fmt::format("the tokenizer {}: {}", printable(config.tokenizer), remedy));
  }
}

} // namespace assay
