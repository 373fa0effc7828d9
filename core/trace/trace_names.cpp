#include "core/trace/trace_names.h"

#include "core/text.h"

namespace assay {

namespace {

constexpr std::size_t kLongestName = 64 << 10; // bytes

// At most kLongestName bytes, not ending inside a character.
std::string_view cut(std::string_view text) {
  if (text.size() <= kLongestName) return text;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end == 0 ? kLongestName : end); // 0: no UTF-8 at all
}

} // namespace

NameTable::NameTable() {
  ids_.emplace("", 0);
  names_.emplace_back();
}

NameId NameTable::intern(std::string_view text) {
  const std::string_view name = cut(text);
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const auto id = static_cast<NameId>(names_.size());
  std::string stored = printable(name);
  if (name.size() < text.size() || stored != name) ++altered_;
  names_.push_back(std::move(stored));
  ids_.emplace(name, id);
  return id;
}

void NameTable::write(const Database& db) const {
  Statement statement = db.prepare("INSERT INTO StringIds VALUES (?1, ?2)");
  for (std::size_t i = 0; i < names_.size(); ++i)
    statement.bind(1, static_cast<std::int64_t>(i)).bind(2, names_[i]).run();
}

} // namespace assay
