"""Compares a query's Arrow file with its JSON rows, which come on standard input: {"file", "columns", "rows"}. Prints differences."""
import base64
import datetime
import decimal
import json
import math
import sys

import pyarrow as pa


def plain(value, kind):
    """The value in the form that JSON has, with wide integers and decimals as strings."""
    if value is None:
        return None
    if pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)
    if pa.types.is_floating(kind):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if pa.types.is_date(kind):
        return value.isoformat()
    if pa.types.is_timestamp(kind):
        return value.astimezone(datetime.timezone.utc) if kind.tz else value
    if pa.types.is_binary(kind):
        return base64.b64encode(value).decode()
    if pa.types.is_map(kind):
        return [{"key": plain(k, kind.key_type), "value": plain(v, kind.item_type)} for k, v in value]
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    return value


def read(value, sample):
    """A value of JSON, with date and time read where Arrow has one."""
    if isinstance(sample, datetime.datetime) and isinstance(value, str):
        return datetime.datetime.fromisoformat(value)
    if isinstance(sample, list) and isinstance(value, list) and len(sample) == len(value):
        return [read(*pair) for pair in zip(value, sample)]
    if isinstance(sample, dict) and isinstance(value, dict) and sample.keys() == value.keys():
        return {key: read(value[key], sample[key]) for key in sample}
    return value


given = json.load(sys.stdin)
table = pa.ipc.open_file(given["file"]).read_all()
table.validate(full=True)
different = []
compared = 0
for index, (name, column) in enumerate(zip(given["columns"], table.columns, strict=True)):
    assert table.schema.names[index] == name
    assert len(column) == len(given["rows"])
    for row, value in enumerate(column.to_pylist()):
        found = plain(value, column.type)
        expected = given["rows"][row][index]
        if str(column.type) == "string" and not isinstance(expected, (str, type(None))):
            found = json.loads(found)
        compared += 1
        if found != read(expected, found):
            different.append([name, row, str(found), str(expected)])
types = {field.name: str(field.type) for field in table.schema}
json.dump({"compared": compared, "different": different, "types": types}, sys.stdout)
