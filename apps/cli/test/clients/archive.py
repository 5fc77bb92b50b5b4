"""Adds up the archive of the ledger by two engines, in a bucket and in a folder, and prints what they find."""

import json
import os
import sys
from decimal import Decimal

import chdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

endpoint, bucket, folder, statement = sys.argv[1:]
key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]


def by_clickhouse(query):
    rows = json.loads(str(chdb.query(f"{query} SETTINGS output_format_json_quote_decimals = 1", "JSON")))["data"]
    return {row["model"]: nano(Decimal(next(v for k, v in row.items() if k != "model"))) for row in rows}


def by_arrow(dataset):
    table = dataset.to_table(columns=["model", "cost_usd"])
    # A sum may have a digit more than its values.
    table = table.set_column(1, "cost_usd", pc.cast(table["cost_usd"], pa.decimal256(76, 9)))
    sums = table.group_by("model").aggregate([("cost_usd", "sum")]).to_pylist()
    return {row["model"]: nano(row["cost_usd_sum"]) for row in sums}


def nano(usd):
    whole = usd * 10**9
    assert whole == int(whole), usd
    return str(int(whole))


def dataset(path, filesystem=None):
    return ds.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive", exclude_invalid_files=False)


s3 = fs.S3FileSystem(access_key=key, secret_key=secret, endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=False)
source = f"s3('{endpoint}/{bucket}/day=*/*.parquet', '{key}', '{secret}', 'Parquet')"
print(
    json.dumps(
        {
            "clickhouse": by_clickhouse(statement),
            "clickhouse, bucket": by_clickhouse(f"SELECT model, sum(cost_usd) FROM {source} GROUP BY model"),
            "pyarrow": by_arrow(dataset(folder)),
            "pyarrow, bucket": by_arrow(dataset(bucket, s3)),
        }
    )
)
