// The one function of assay-parquet.so, the only part that links Apache Arrow's Parquet library: it
// is loaded where a corpus has a Parquet file, so that nothing else needs that library.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Takes the next text; false stops.
typedef bool (*AssayTakeText)(void* to, const char* text, std::uint64_t size);

// Gives `take` the values of the column `text` in their order, a null as no bytes. 0, or
// kParquetDamaged with the cause in `error`, kParquetNoColumn with the names of the columns there,
// kParquetStopped.
enum { kParquetDamaged = 1, kParquetNoColumn, kParquetStopped };
int assay_parquet_texts(
    const char* path, AssayTakeText take, void* to, char* error, std::size_t error_size);

// Its name in the module, and the module's file name beside the program.
#define ASSAY_PARQUET_FUNCTION "assay_parquet_texts"
#define ASSAY_PARQUET_MODULE "assay-parquet.so"
}
