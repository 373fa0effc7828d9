// PagedMap: from dense 32-bit ids (CUPTI correlations) to small values. A page of 65,536 values is
// made on first use, so an id costs its value and no search; absent ids read as T{}.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace assay {

template <class T> class PagedMap {
public:
  T& operator[](std::uint32_t id) {
    if (last_ == nullptr || id >> 16 != last_number_) {
      auto& page = pages_[id >> 16];
      if (page == nullptr) page = std::make_unique<Page>();
      last_ = page.get();
      last_number_ = id >> 16;
    }
    return (*last_)[id & 0xFFFF];
  }

  // The value of an id that may be absent; makes no page.
  T* find(std::uint32_t id) {
    if (last_ != nullptr && id >> 16 == last_number_) return &(*last_)[id & 0xFFFF];
    const auto found = pages_.find(id >> 16);
    if (found == pages_.end()) return nullptr;
    last_ = found->second.get();
    last_number_ = id >> 16;
    return &(*last_)[id & 0xFFFF];
  }

private:
  using Page = std::array<T, 65536>;
  std::unordered_map<std::uint32_t, std::unique_ptr<Page>> pages_;
  Page* last_ = nullptr;
  std::uint32_t last_number_ = 0;
};

} // namespace assay
