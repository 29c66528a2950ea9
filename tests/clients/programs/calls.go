// The four calls with the client that openapi-generator makes in Go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	tabularium "github.com/GIT_USER_ID/GIT_REPO_ID"
)

func main() {
	configuration := tabularium.NewConfiguration()
	configuration.Servers = tabularium.ServerConfigurations{{URL: os.Getenv("SERVER_URL")}}
	client := tabularium.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), tabularium.ContextAccessToken, os.Getenv("SERVER_TOKEN"))
	table := os.Getenv("TABLE")

	listed, _, err := client.DatabasesAPI.DatabasesList(ctx, "default").Execute()
	check(err)
	request := tabularium.NewCreateTableRequest()
	request.SetName(table)
	request.SetColumns([]tabularium.ColumnDefinition{
		*tabularium.NewColumnDefinition("id", "BIGINT"),
		*tabularium.NewColumnDefinition("note", "STRING"),
	})
	created, _, err := client.TablesAPI.TablesCreate(ctx, "default", "shop").CreateTableRequest(*request).Execute()
	check(err)
	query := tabularium.NewQueryRequest("SELECT 1 AS id, 'a' AS note")
	queried, _, err := client.DatabasesAPI.DatabasesQuery(ctx, "default", "shop").QueryRequest(*query).Execute()
	check(err)
	submitted, _, err := client.TablesAPI.TablesOptimize(ctx, "default", "shop", table).
		OptimizeTableRequest(*tabularium.NewOptimizeTableRequest()).Execute()
	check(err)
	task, _, err := client.TasksAPI.TasksGet(ctx, submitted.Result.TaskId).WaitSeconds(60).Execute()
	check(err)

	databases, columns := []string{}, []string{}
	for _, database := range listed.Result.Databases {
		databases = append(databases, database.Name)
	}
	for _, column := range created.Result.Columns {
		columns = append(columns, column.Name)
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"databases": databases,
		"table":     created.Result.Name,
		"columns":   columns,
		"rows":      queried.Result.Rows,
		"task":      task.Result.State,
	}))
}

func check(err error) {
	if err == nil {
		return
	}
	if failure, ok := err.(*tabularium.GenericOpenAPIError); ok {
		fmt.Fprintln(os.Stderr, string(failure.Body()))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
