// The four calls with the client that openapi-generator makes in Java.
package calls;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.DatabasesApi;
import org.openapitools.client.api.TablesApi;
import org.openapitools.client.api.TasksApi;
import org.openapitools.client.model.ColumnDefinition;
import org.openapitools.client.model.CreateTableRequest;
import org.openapitools.client.model.OptimizeTableRequest;
import org.openapitools.client.model.QueryRequest;

public final class Calls {
  public static void main(String[] arguments) throws Exception {
    String table = System.getenv("TABLE");
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("SERVER_URL"));
    client.setRequestInterceptor(
        request -> request.header("authorization", "Bearer " + System.getenv("SERVER_TOKEN")));
    DatabasesApi databases = new DatabasesApi(client);
    TablesApi tables = new TablesApi(client);

    var listed = databases.databasesList("default", null, null, null);
    var columns =
        List.of(
            new ColumnDefinition().name("id").type("BIGINT"),
            new ColumnDefinition().name("note").type("STRING"));
    var request = new CreateTableRequest().name(table).columns(columns);
    var created = tables.tablesCreate("default", "shop", request, null, null);
    var query = new QueryRequest().sql("SELECT 1 AS id, 'a' AS note");
    var queried = databases.databasesQuery("default", "shop", query, null, null, null);
    var submitted =
        tables.tablesOptimize("default", "shop", table, null, null, null, new OptimizeTableRequest());
    var task = new TasksApi(client).tasksGet(submitted.getResult().getTaskId(), 60, null);

    Map<String, Object> calls = new TreeMap<>();
    calls.put("databases", listed.getResult().getDatabases().stream().map(one -> one.getName()).toList());
    calls.put("table", created.getResult().getName());
    calls.put("columns", created.getResult().getColumns().stream().map(one -> one.getName()).toList());
    calls.put("rows", queried.getResult().getRows());
    calls.put("task", task.getResult().getState());
    System.out.println(client.getObjectMapper().writeValueAsString(calls));
  }
}
