"""Workloads: streams of keyed events too long for one process, made, imported, analysed, replayed.

A workload is a directory of Parquet files, one per chunk, and a `workload.json` that describes it.
"""
