#include "model/data/parquet/plugin.h"

#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>

namespace {

constexpr std::int64_t kBatch = 1024;

int fail(int code, const std::string& text, char* error, std::size_t size) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::replace_copy(text.data(), text.data() + length, error, '\n', ' '); // some are two lines
  error[length] = '\0';
  return code;
}

// Of the column of strings, one a row, named `text`; -1: there is none.
int text_column(const parquet::SchemaDescriptor& schema) {
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor* column = schema.Column(i);
    if (column->path()->ToDotString() == "text" &&
        column->physical_type() == parquet::Type::BYTE_ARRAY && column->max_repetition_level() == 0)
      return i;
  }
  return -1;
}

bool read_column(parquet::ByteArrayReader& column, int optional, AssayTakeText take, void* to) {
  std::array<parquet::ByteArray, kBatch> values;
  std::array<std::int16_t, kBatch> levels;
  while (column.HasNext()) {
    std::int64_t present = 0;
    const std::int64_t rows =
        column.ReadBatch(kBatch, levels.data(), nullptr, values.data(), &present);
    for (std::int64_t row = 0, next = 0; row < rows; ++row) {
      const bool null = optional > 0 && levels[static_cast<std::size_t>(row)] < optional;
      const parquet::ByteArray text =
          null ? parquet::ByteArray() : values[static_cast<std::size_t>(next++)];
      if (!take(to, reinterpret_cast<const char*>(text.ptr), text.len)) return false;
    }
  }
  return true;
}

} // namespace

int assay_parquet_texts(
    const char* path, AssayTakeText take, void* to, char* error, std::size_t error_size) {
  try {
    const auto file = parquet::ParquetFileReader::OpenFile(path, /*memory_map=*/false);
    const parquet::SchemaDescriptor& schema = *file->metadata()->schema();
    const int index = text_column(schema);
    if (index < 0) {
      std::string columns;
      for (int i = 0; i < schema.num_columns(); ++i)
        columns += (i == 0 ? "" : ", ") + schema.Column(i)->path()->ToDotString();
      return fail(kParquetNoColumn, columns, error, error_size);
    }
    for (int group = 0; group < file->metadata()->num_row_groups(); ++group) {
      const auto column =
          std::static_pointer_cast<parquet::ByteArrayReader>(file->RowGroup(group)->Column(index));
      if (!read_column(*column, schema.Column(index)->max_definition_level(), take, to))
        return kParquetStopped;
    }
    return 0;
  } catch (const std::exception& exception) {
    return fail(kParquetDamaged, exception.what(), error, error_size);
  }
}
