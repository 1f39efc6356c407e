"""Streams as tables: every event of a geoplex in Delta or Parquet, exactly once."""
