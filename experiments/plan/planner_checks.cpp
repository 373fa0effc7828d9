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

// Where the matrix gives `key`, in its text.
GivenAt given_at(const Matrix& matrix, const MatrixCell& cell, std::string_view key) {
  const auto of = [&](const std::vector<ConfigValue>& values) {
    const auto found = std::ranges::find_if(
        values, [&](const ConfigValue& value) { return value.key == key && value.in_file; });
    return found == values.end() ? std::string() : found->where;
  };
  for (const MatrixVariant& variant : cell.variants)
    if (const std::string where = of(variant.set); !where.empty()) return {where, true};
  if (const std::string where = of(cell.set); !where.empty()) return {where, true};
  return {of(matrix.base)};
}

} // namespace

std::string wrong_data(const std::string& data, const GivenAt& given) {
  if (data.empty()) return "no training data: give --data PATH, or `data` under [base]";
  const bool of_option = given.where.starts_with("--");
  const std::string path = printable(data),
                    of = "the training data" + (given.where.empty() ? "" : ", " + given.where),
                    others = of_option       ? "correct its path"
                             : given.of_cell ? "correct its path there"
                                             : "name others with --data";
  std::error_code ignored;
  if (const std::string why = why_unreachable(data); !why.empty())
    return fmt::format("{}: {} ({})", path, why, of);
  if (!std::filesystem::exists(data, ignored))
    return fmt::format("{}: no such file or directory ({}); {}{}",
                       path,
                       of,
                       others,
                       !of_option && !given.where.empty() &&
                               std::filesystem::path(data).is_relative()
                           ? "; a relative path is read from the current directory"
                           : "");
  if (const std::string why = why_no_plain_file(data);
      !why.empty() && !std::filesystem::is_directory(data, ignored))
    return fmt::format("{}: {}; training data are files or a directory", path, why);
  if (std::filesystem::is_empty(data, ignored))
    return fmt::format("{}: is empty ({}); put text into it, or {}", path, of, others);
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
  const std::string wrong = wrong_data(config.data, given_at(matrix_, cell, "data"));
  const bool absent =
      why_unreachable(config.data).empty() && (!std::filesystem::exists(config.data, ignored) ||
                                               std::filesystem::is_empty(config.data, ignored));
  if (absent && !(options_.needs_data && will_run(cell)))
    lacks(config.data.empty() ? "training data: --data PATH" : "its training data: " + wrong);
  else if (!wrong.empty())
    problems_.add(wrong);
  // A cell that does not run needs it too: its vocabulary is of the plan.
  if (config.tokenizer != "bytes")
    check_file(
        cell,
        "tokenizer",
        config.tokenizer,
        "make it with `assay tokenizer train`, or " +
            std::string(given_at(matrix_, cell, "tokenizer").of_cell
                            ? "write \"bytes\" there"
                            : "choose bytes (`run` and `plan`: --set base.tokenizer=bytes)"));
  if (!config.package.empty())
    check_file(cell, "package", config.package, "make it with experiments/packages/compile.py");
}

void Planner::check_file(const MatrixCell& cell,
                         const std::string& key,
                         const std::string& path,
                         const std::string& remedy) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return;
  const std::string where = given_at(matrix_, cell, key).where;
  if (options_.needs_data)
    problems_.add(fmt::format("{}: no such file (the {}{}): {}",
                              printable(path),
                              key,
                              where.empty() ? "" : ", " + where,
                              remedy));
  else
    lacks(fmt::format("the {} {}: {}", key, printable(path), remedy));
}

void Planner::check_worker(const MatrixCell& cell, const MatrixVariant& variant) {
  std::error_code ignored;
  if (variant.worker.empty() || std::filesystem::exists(variant.worker, ignored)) return;
  if (options_.needs_data && will_run(cell))
    problems_.add(fmt::format("{}: cell '{}': variant '{}': {}: no such file (its `worker`); build "
                              "it, or correct the path",
                              cell.place({"variants"}),
                              printable(cell.name),
                              printable(variant.name),
                              printable(variant.worker)));
  else
    lacks(fmt::format(
        "the worker of variant '{}', {}", printable(variant.name), printable(variant.worker)));
}

} // namespace assay
