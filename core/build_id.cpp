#include "core/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>

namespace assay {

namespace {

// Finds NT_GNU_BUILD_ID in the notes of the main program (the first object that dl_iterate_phdr
// visits).
int read_build_id(dl_phdr_info* info, std::size_t, void* out) {
  const auto pad = [](std::size_t n) { return (n + 3) & ~std::size_t{3}; };
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto*
        at = // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as integers
        reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);
    const auto* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note{};
      std::memcpy(&note, at, sizeof note);
      const auto* description = at + sizeof note + pad(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID) {
        for (std::size_t b = 0; b < note.n_descsz; ++b)
          *static_cast<std::string*>(out) += fmt::format("{:02x}", description[b]);
        return 1;
      }
      at = description + pad(note.n_descsz);
    }
  }
  return 1;
}

} // namespace

std::string linker_build_id() {
  std::string id;
  dl_iterate_phdr(read_build_id, &id);
  return id;
}

} // namespace assay
