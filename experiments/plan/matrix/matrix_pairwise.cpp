#include "experiments/plan/matrix/matrix_pairwise.h"

#include <algorithm>

#include "core/text.h"
#include "experiments/plan/matrix/cell_name.h"
#include "model/config/train_config.h"

namespace assay {

using nlohmann::json;

namespace {

struct Axis {
  std::string key;
  std::vector<ConfigValue> values;
};

// One combination: its optimization and one value of every axis.
struct Point {
  std::string optimization;
  std::vector<ConfigValue> values;
  std::string where; // of the optimization's name
};

std::vector<Axis> read_axes(TomlTable& table) {
  std::vector<Axis> axes;
  const toml::table* raw = table.table("axes");
  if (raw == nullptr) return axes;
  for (const auto& [key, node] : *raw) {
    const toml::array* values = node.as_array();
    if (values == nullptr || values->empty()) {
      table.problems().add(&node,
                           fmt::format("[matrix] axes: '{}' takes a non-empty array of values",
                                       printable(key.str())));
      continue;
    }
    Axis axis{std::string(key.str()), {}};
    for (const toml::node& value : *values) {
      TrainConfig scratch;
      const json as_json = toml_to_json(value);
      if (Result<bool> ok = set_key(scratch, axis.key, as_json); !ok)
        table.problems().add(&value, ok.error().message);
      if (std::ranges::find(axis.values, as_json, &ConfigValue::value) != axis.values.end())
        table.problems().add(
            &value, fmt::format("[matrix] axes: '{}' has {} twice", axis.key, as_json.dump()));
      axis.values.push_back({axis.key, as_json, table.problems().place(&value)});
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Counted before any is made: four axes of 100 values are 100 million cells.
std::size_t count_cells(std::size_t names, const std::vector<Axis>& axes) {
  std::size_t cells = names;
  for (const Axis& axis : axes)
    if (cells <= kMostCells) cells *= axis.values.size();
  return cells;
}

std::vector<Point> named_points(TomlTable& table, const std::vector<std::string>& names) {
  std::vector<Point> points;
  const toml::node* array = table.node("optimizations");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const toml::node* node = array->as_array()->get(i);
    if (names[i].empty())
      table.problems().add(node, "[matrix] optimizations takes names of `assay list`, not \"\"");
    else if (std::ranges::find(points, names[i], &Point::optimization) != points.end())
      table.problems().add(
          node, fmt::format("[matrix] optimizations has '{}' twice", printable(names[i])));
    else
      points.push_back({names[i], {}, table.problems().place(node)});
  }
  return points;
}

std::vector<Point> product(std::vector<Point> points, const std::vector<Axis>& axes) {
  for (const Axis& axis : axes) {
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (const ConfigValue& value : axis.values) {
        longer.push_back(point);
        longer.back().values.push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

bool matches(const Point& point, const json& pattern) {
  return std::all_of(pattern.items().begin(), pattern.items().end(), [&](const auto& item) {
    if (item.key() == "optimization") return item.value() == point.optimization;
    return std::any_of(point.values.begin(), point.values.end(), [&](const ConfigValue& v) {
      return v.key == item.key() && v.value == item.value();
    });
  });
}

// Drops what matches an entry of `exclude`; an entry that matches nothing is a mistake.
void exclude(TomlTable& table, std::vector<Point>& points) {
  for (const toml::table* entry : table.tables("exclude")) {
    const json pattern = toml_to_json(*entry);
    if (std::erase_if(points, [&](const Point& p) { return matches(p, pattern); }) == 0)
      table.problems().add(entry,
                           fmt::format("[matrix] exclude {} matches no cell", pattern.dump()));
  }
}

std::string cell_name(const Point& point) {
  std::string name = point.optimization;
  for (const ConfigValue& v : point.values)
    name += fmt::format(
        "/{}={}", v.key, v.value.is_string() ? v.value.get<std::string>() : v.value.dump());
  return name;
}

void include(TomlTable& table, std::vector<Point>& points) {
  for (const toml::table* entry : table.tables("include")) {
    const auto name = (*entry)["optimization"].value<std::string>();
    if (!name) table.problems().add(entry, "[matrix] include needs an `optimization`");
    points.push_back({name.value_or(""),
                      config_values(*entry, table.problems(), "optimization"),
                      table.problems().place(name ? entry->get("optimization") : entry)});
    const std::string added = cell_name(points.back());
    if (std::ranges::count(points, added, cell_name) > 1)
      table.problems().add(
          entry,
          fmt::format("[matrix] include: there is a cell '{}' without it", printable(added)));
  }
}

} // namespace

void expand_pairwise(TomlTable& root, Matrix& matrix) {
  const toml::table* raw = root.table("matrix");
  if (raw == nullptr) return;
  TomlTable table(*raw, "[matrix]", root.problems());
  if (const auto design = table.text("design"); design && *design != "pairwise")
    root.problems().add(
        table.node("design"),
        fmt::format("[matrix] design = '{}' is not supported by this build; use \"pairwise\"",
                    printable(*design)));
  const std::vector<std::string> names = table.texts("optimizations");
  if (names.empty()) root.problems().add(raw, "[matrix] names no `optimizations`");
  const std::vector<Axis> axes = read_axes(table);
  if (count_cells(names.size(), axes) > kMostCells) {
    std::string sizes = std::to_string(names.size());
    for (const Axis& axis : axes) sizes += fmt::format(" x {}", axis.values.size());
    root.problems().add(raw,
                        fmt::format("[matrix] optimizations and axes make {} cells, more than {} "
                                    "cells; take fewer values",
                                    sizes,
                                    kMostCells));
    return;
  }
  std::vector<Point> points = product(named_points(table, names), axes);
  exclude(table, points);
  include(table, points);
  for (const Point& point : points) {
    MatrixCell cell;
    cell.name = cell_name(point);
    if (const std::string wrong = wrong_cell_name(cell.name); !wrong.empty())
      root.problems().add(raw, fmt::format("[matrix] the name of a cell {}", wrong));
    cell.optimization = point.optimization;
    cell.set = point.values;
    cell.where = root.problems().place(raw);
    cell.places.emplace("optimization", point.where);
    matrix.cells.push_back(std::move(cell));
  }
  table.no_other_keys();
}

} // namespace assay
