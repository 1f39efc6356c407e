# ruff: noqa: E402  cells import what they need
"""A lake in a notebook: streams as tables, from the first event to a plot's worth of numbers.

    epicast up                                   # in another terminal
    python examples/lake_notebook.py epicast://127.0.0.1:7400

Editors that know `# %%` show it as cells. Ends with: the same as a subscriber from the beginning
"""

# %% Something to look at: a stream that keeps the latest price of everything.
import subprocess
import sys
import tempfile
from pathlib import Path

import epicast
from epicast import sync

ADDRESS = sys.argv[1] if len(sys.argv) > 1 else "epicast://127.0.0.1:7400"
FOLDER = Path(tempfile.mkdtemp(prefix="epicast-lake-")) / "lake"

node = sync.connect(ADDRESS, agent=False)
prices = node.stream("prices")
names = [b"ACME", b"EMCA", b"MACE"]
for round_ in range(20):
    prices.publish_many([b"%d" % (100 * n + round_) for n in range(3)], names)
prices.collect("key == 'MACE'")

# %% Into the lake, exactly once; without --once it goes on until Ctrl-C.
lake_run = ["lake", "run", "--lake", str(FOLDER), "--proxy", ADDRESS, "--streams", "prices"]
subprocess.run([sys.executable, "-m", "epicast", *lake_run, "--once"], check=True)

# %% The tables, as Spark sees them.
from epicast.pipeline.lake.compaction import compact
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.lake.query import refresh, with_views
from epicast.pipeline.lake.travel import state_at
from epicast.pipeline.session import start_session

lake = Lake.open(FOLDER)
spark = start_session("local[*]")
refresh(spark, lake)
with_views(spark, lake)
spark.sql(
    "SELECT decode(key, 'utf-8') AS name, decode(payload, 'utf-8') AS price FROM silver"
).show()
spark.sql("SELECT minute, events, tombstones, keys, lag_50_ms FROM gold ORDER BY minute").show()
spark.sql("SELECT * FROM savings").show()

# %% The lake forgets what the stream has forgotten, and still knows how it was before.
before = lake.watermarks()["prices"]
for done in compact(spark, lake):
    print(f"{done.stream}: {done.rows_before} rows became {done.rows_after}")
state_at(spark, lake, "prices", before).values.show()

# %% A new subscriber starts from the lake, and goes on with the stream.
from epicast.pipeline.lake import bootstrap

prices.publish(b"1000", b"ACME")
snapshot = bootstrap.read(lake, "prices")
rows = snapshot.values.to_pylist()
values = {row["key"]: row["payload"] for row in rows}


def follow(after: epicast.Watermark | int, known: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """What is known, brought up to date; of GC events this one expects none that matter."""
    with prices.subscribe(after) as subscription:
        while items := subscription.pull(timeout=0.5):
            known |= {
                item.key: item.payload
                for item in items
                if isinstance(item, epicast.Event) and item.kind == epicast.EventKind.DATA
            }
    return known


assert follow(snapshot.watermark, values) == follow(0, {})
print("the same as a subscriber from the beginning")
spark.stop()
node.close()
