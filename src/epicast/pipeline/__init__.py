"""The data pipeline: sweeps, workloads, lake and audit, on Spark. The only package that imports
pyspark, and only where a session is started."""
