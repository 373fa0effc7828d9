#include "core/ledger/plan_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/files/json_difference.h"
#include "core/text.h"

namespace assay {

namespace {

using nlohmann::json;

// A difference, and in how many cells it is found beyond the first.
struct Difference {
  std::string where, what;
  bool asked = false;
  int more = 0;
};

class Differences {
public:
  explicit Differences(const std::set<std::string>& asked) : asked_(asked) {}

  void add(const std::string& where, const std::string& what, const std::string& key = "") {
    for (Difference& known : all_)
      if (known.what == what) {
        known.more += known.where != where && more_[what].insert(where).second;
        return;
      }
    all_.push_back({where, what, asked_.contains(key)});
  }
  // Structured values, whose parts are mostly compared one by one, only on request.
  void
  keys(const std::string& where, const json& there, const json& here, bool structured = false) {
    const auto plain = [](const json& side, const std::string& key) {
      const auto found = side.find(key);
      return found != side.end() && !found->is_structured();
    };
    for (const std::string& key : differing_keys(there, here))
      if (structured || plain(there, key) || plain(here, key))
        add(where, difference_text(key, there, "in the results", here, "now"), key);
  }
  std::string text(std::size_t most) {
    const auto others =
        std::ranges::stable_partition(all_, [](const Difference& one) { return one.asked; });
    most = std::max(most, all_.size() - others.size());
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min(most, all_.size()); ++i)
      parts.push_back((all_[i].where.empty() ? "" : all_[i].where + ", ") + all_[i].what +
                      more_cells(all_[i]));
    if (all_.size() > most) parts.push_back(fmt::format("{} more", all_.size() - most));
    return fmt::format("{}", fmt::join(parts, "; "));
  }

private:
  // Only cells repeat a difference: of another cell, or of the plan as a whole, which one cell says
  // once more.
  static std::string more_cells(const Difference& difference) {
    if (difference.more == 0 || (difference.where.empty() && difference.more == 1)) return "";
    return fmt::format(" (also in {}{} cell{})",
                       difference.more,
                       difference.where.empty() ? "" : " more",
                       difference.more == 1 ? "" : "s");
  }

  const std::set<std::string>& asked_;
  std::vector<Difference> all_;
  std::map<std::string, std::set<std::string>> more_; // by what: where else
};

// Objects of an array by the key that names them.
std::map<std::string, json> by_name(const json& object, const char* array, const char* name) {
  std::map<std::string, json> result;
  for (const json& item : object.value(array, json::array()))
    result.emplace(item.at(name).get<std::string>(), item);
  return result;
}

// Calls both(name, there, here) for what both sides have; the others are differences by themselves.
void match(const std::map<std::string, json>& there,
           const std::map<std::string, json>& here,
           const std::string& where,
           const char* what,
           Differences& found,
           auto both) {
  for (const auto& [name, item] : there)
    if (const auto other = here.find(name); other != here.end())
      both(name, item, other->second);
    else
      found.add(
          where,
          fmt::format("{} '{}' is in the results, but not in the plan now", what, printable(name)));
  for (const auto& [name, item] : here)
    if (!there.contains(name))
      found.add(
          where,
          fmt::format("{} '{}' is in the plan now, but not in the results", what, printable(name)));
}

void compare_cells(const json& there, const json& here, Differences& found) {
  match(by_name(there, "cells", "name"),
        by_name(here, "cells", "name"),
        "",
        "cell",
        found,
        [&](const std::string& name, const json& a, const json& b) {
          const std::string where = fmt::format("cell '{}'", printable(name));
          found.keys(where, a, b);
          match(by_name(a, "variants", "name"),
                by_name(b, "variants", "name"),
                where,
                "variant",
                found,
                [&](const std::string&, const json& v, const json& w) {
                  found.keys(where, v.value("config", json()), w.value("config", json()));
                  found.keys(where, v, w);
                });
        });
}

void compare_rows(const json& there,
                  const json& here,
                  const char* array,
                  const char* name,
                  const char* what,
                  Differences& found) {
  match(by_name(there, array, name),
        by_name(here, array, name),
        "",
        what,
        found,
        [&](const std::string& key, const json& a, const json& b) {
          found.keys(fmt::format("{} '{}'", what, printable(key)), a, b, true);
        });
}

} // namespace

std::string plan_difference(const std::string& there,
                            const std::string& here,
                            std::size_t most,
                            const std::set<std::string>& asked) {
  try {
    const json a = json::parse(there), b = json::parse(here);
    Differences found(asked);
    found.keys("", a, b);
    found.keys("[limits]", a.value("limits", json::object()), b.value("limits", json::object()));
    compare_cells(a, b, found);
    compare_rows(a, b, "optimizations", "name", "optimization", found);
    compare_rows(a, b, "claims", "id", "claim", found);
    return found.text(most);
  } catch (const json::exception&) {
    return ""; // a plan that this build cannot read differs in an unknown way
  }
}

} // namespace assay
