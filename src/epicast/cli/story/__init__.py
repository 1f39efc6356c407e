"""The demonstration: three regions, a workload, some trouble, and what became of every event."""
