// Registry<T>: an ordered, name-unique, immutable list of rows with did-you-mean lookup. T has a
// `name` member.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/text.h"

namespace assay {

template <class T> class Registry {
public:
  Registry(std::string noun, std::vector<T> rows) : noun_(std::move(noun)), rows_(std::move(rows)) {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        assert(rows_[i].name != rows_[j].name && "registry names are unique");
  }

  const std::vector<T>& all() const { return rows_; }

  const T* find(std::string_view name) const {
    for (const T& row : rows_)
      if (row.name == name) return &row;
    return nullptr;
  }

  // The row, or "unknown optimization 'x' (did you mean 'y'?)".
  Result<const T*> lookup(std::string_view name) const {
    if (const T* row = find(name)) return row;
    return fail("unknown {} '{}'{}", noun_, printable(name), did_you_mean(name, names()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const T& row : rows_) result.emplace_back(row.name);
    return result;
  }

private:
  std::string noun_;
  std::vector<T> rows_;
};

} // namespace assay
