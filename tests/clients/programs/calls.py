# The four calls with the client that openapi-generator makes in Python.
import json
import os

import tabularium_client as api

configuration = api.Configuration(host=os.environ["SERVER_URL"], access_token=os.environ["SERVER_TOKEN"])
table = os.environ["TABLE"]
with api.ApiClient(configuration) as client:
    databases, tables, tasks = api.DatabasesApi(client), api.TablesApi(client), api.TasksApi(client)
    listed = databases.databases_list("default")
    columns = [api.ColumnDefinition(name="id", type="BIGINT"), api.ColumnDefinition(name="note", type="STRING")]
    request = api.CreateTableRequest(name=table, columns=columns)
    created = tables.tables_create("default", "shop", create_table_request=request)
    query = api.QueryRequest(sql="SELECT 1 AS id, 'a' AS note")
    queried = databases.databases_query("default", "shop", query_request=query)
    submitted = tables.tables_optimize("default", "shop", table)
    task = tasks.tasks_get(submitted.result.task_id, wait_seconds=60)

print(
    json.dumps(
        {
            "databases": [one.name for one in listed.result.databases],
            "table": created.result.name,
            "columns": [one.name for one in created.result.columns],
            "rows": queried.result.rows,
            "task": task.result.state,
        }
    )
)
