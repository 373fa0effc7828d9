#!/usr/bin/env python3
"""Writes the Parquet files beside it, which corpus tests read: make_files.py (needs pyarrow).

texts.parquet: six rows in groups of two, dictionary and Snappy, one text null, one empty, one not ASCII.
plain.parquet: texts that may not be null, no dictionary, Zstandard, pages of few rows.
other.parquet: no column `text`."""
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).parent
texts = ["first", None, "", "second é", "third", "third"]
pq.write_table(pa.table({"id": range(6), "text": texts}), here / "texts.parquet", row_group_size=2)
plain = pa.array([f"text {i} " + "x" * (i % 50) for i in range(3000)])
schema = pa.schema([pa.field("text", pa.large_string(), nullable=False)])
pq.write_table(pa.table([plain.cast(pa.large_string())], schema=schema), here / "plain.parquet", use_dictionary=False,
               compression="zstd", data_page_size=4096, write_batch_size=64)
pq.write_table(pa.table({"content": ["a"], "text.more": ["b"]}), here / "other.parquet")
