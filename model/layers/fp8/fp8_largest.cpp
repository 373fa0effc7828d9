#include "model/layers/fp8/fp8_largest.h"

#include <ATen/ATen.h>

#include <array>

namespace assay {

namespace {

// References are weak: while one is held no other storage has its address, and a note that nobody
// takes keeps no memory.
struct Note {
  c10::weak_intrusive_ptr<c10::StorageImpl> x, slots;
  const void* data = nullptr;
  std::int64_t size = 0, version = 0, offset = 0;
};

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakStorage none() {
  return WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}

// A note is taken by the next linear, or never.
constexpr std::size_t kNotes = 4;
struct Notes {
  std::array<Note, kNotes> notes{
      Note{none(), none()}, Note{none(), none()}, Note{none(), none()}, Note{none(), none()}};
  std::size_t next = 0;
};
thread_local Notes noted;

bool is_of(const Note& note, const at::Tensor& x) {
  return note.data != nullptr && note.data == x.const_data_ptr() && note.size == x.numel() &&
         note.version == x._version() && x.is_contiguous() &&
         note.x._unsafe_get_target() == x.storage().unsafeGetStorageImpl();
}

} // namespace

float* largest_of(const at::Tensor& slot) {
  return slot.defined() ? slot.mutable_data_ptr<float>() : nullptr;
}

void note_largest(const at::Tensor& x, const at::Tensor& slot) {
  if (!slot.defined()) return;
  noted.notes[noted.next] = {x.storage().getWeakStorageImpl(),
                             slot.storage().getWeakStorageImpl(),
                             x.const_data_ptr(),
                             x.numel(),
                             x._version(),
                             slot.storage_offset()};
  noted.next = (noted.next + 1) % kNotes;
}

at::Tensor take_largest(const at::Tensor& x) {
  for (Note& note : noted.notes) {
    if (!is_of(note, x)) continue;
    const c10::intrusive_ptr<c10::StorageImpl> slots = note.slots.lock();
    const std::int64_t offset = note.offset;
    note = {none(), none()};
    if (!slots) return {};
    return at::empty({0}, x.options().dtype(at::kFloat).requires_grad(false))
        .set_(c10::Storage(slots), offset, {8}, {1});
  }
  return {};
}

} // namespace assay
