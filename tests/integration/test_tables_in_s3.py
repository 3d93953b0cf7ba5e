"""Tables in an object store: a real S3 server, read by range, with the rows of the same files on a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from testbed import moto_server
from testbed.pytest_support import require

pytestmark = pytest.mark.timeout(300)
ROWS = 100_000
PROGRAM = """
import json, sys
from pathlib import Path
import s3fs
from umiak.cli import main
from umiak.data import tables

store = s3fs.S3FileSystem(skip_instance_cache=True)
here = Path(sys.argv[1])
for path in sorted(here.iterdir()):
    store.put_file(str(path), f"bucket/tables/{path.name}")
asked = []
fetch = s3fs.S3FileSystem._cat_file

async def counted(self, path, *words, **named):
    found = await fetch(self, path, *words, **named)
    asked.append(len(found))
    return found

s3fs.S3FileSystem._cat_file = counted

def rows(path, wants):
    parts = tables.parts([tables.look(path)])
    batches = list(tables.read(parts, wants, batch_rows=7000))
    columns = {name: [each for batch in batches for each in batch.columns[name].plain()] for name in wants}
    return len(parts), columns

told = {}
for path in sorted(here.iterdir()):
    url = f"s3://bucket/tables/{path.name}"
    both = {"user": "ids", "price": "numbers"}
    asked.clear()
    behind = rows(url, both)
    told[path.name] = {"parts": behind[0], "fetched": sum(asked), "most": max(asked), "same": behind == rows(str(path), both)}
    asked.clear()
    assert rows(url, {"price": "numbers"})[1]["price"] == behind[1]["price"]
    told[path.name] |= {"fetched_of_one": sum(asked), "size": path.stat().st_size, "rows": len(behind[1]["price"])}
told["status"] = main.main(["data", "check", "s3://bucket/tables/*.parquet", "--whole", "--json"])
told["missing"] = main.main(["data", "show", "s3://bucket/tables/none.parquet"])
print(json.dumps(told))
"""


def test_rows_are_those_on_a_disk_and_only_what_is_needed_is_fetched(tmp_path: Path) -> None:
    require(moto_server.available())
    packages = next(iter(moto_server.VENV.glob("lib/python*/site-packages")))
    require(None if (packages / "s3fs").is_dir() else f"s3fs is not in {moto_server.VENV.name}: make test installs it")
    here = tmp_path / "tables"
    here.mkdir()
    users = [None if number % 11 == 0 else f"user {number * 7919 % 3001}" for number in range(ROWS)]
    table = pa.table({"user": users, "price": [number / 7 for number in range(ROWS)], "wide": ["x" * 40] * ROWS})
    pq.write_table(table, here / "day.parquet", row_group_size=ROWS // 5, use_dictionary=False, compression="none")
    pyarrow.csv.write_csv(table, here / "day.csv")
    with moto_server.server() as s3:
        environ = {**os.environ, **s3.environ, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": s3.direct}
        environ["PYTHONPATH"] = os.pathsep.join([*sys.path, str(packages)])  # s3fs alone is not in our own environment
        command = [sys.executable, "-c", PROGRAM, str(here)]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    checked, told = (json.loads(each) for each in (ran.stdout.rpartition("\n{")[0], ran.stdout.splitlines()[-1]))
    parquet, text = told["day.parquet"], told["day.csv"]
    assert (parquet["rows"], parquet["parts"], parquet["same"]) == (ROWS, 5, True)
    assert (text["rows"], text["same"]) == (ROWS, True)
    # Of Parquet the chunks of the columns that are asked for, and its footer; never more than a chunk at a time.
    assert parquet["fetched"] < 0.6 * parquet["size"]
    assert parquet["fetched_of_one"] < 0.3 * parquet["size"]
    assert told["status"] == 0
    assert checked["rows_read"] == ROWS
    assert told["missing"] != 0
    assert "UM-" in ran.stderr
    assert "Traceback" not in ran.stderr
