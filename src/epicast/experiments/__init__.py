"""The papers' figures and tables as named experiments: parameters in, claim rows out.

`model` says what an experiment is, `registry` which there are. A sweep turns the points of an
experiment into tasks (`tasks`), has an executor run those that are not finished (`executor`; the
one on Spark is `epicast.pipeline.sweeping`), appends each result to a journal (`journal`) so that
an interrupted sweep resumes, and leaves `claims.json`, `results.parquet`, plots and a report
(`outputs`, `report`).

What a sweep finds depends on the experiment, its scale and its seed, never on the executor, the
number of workers, the order in which runs finish, or how often it was interrupted.
"""
