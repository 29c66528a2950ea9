// The section of docs/engines.md about what the tests have shown of ClickHouse, and on which cluster; said by hand.

export const clickhouseEvidence = `## What was shown of ClickHouse, and where

The tests start three kinds of clusters on one machine, because no package has a current server with replication. A cluster of your own is tested where it is named.

| | cluster of a current version | cluster of the oldest version that warehouses may have | cluster that replicates, of 2018 |
|---|---|---|---|
| is | nodes of 26.7, made of the library in npm \`chdb\` (\`tests/engines/clickhouse/ring/\`) | three servers of 24.8.4.1, which the library in version 3.1.2 of the Python package \`chdb\` contains, and Debian's ZooKeeper (\`tests/engines/clickhouse/replicated_ring/\`) | three servers of 18.16, and one ZooKeeper, from Debian (\`tests/engines/clickhouse/replicated_ring/\`) |
| shows | everything of the adapter that needs no replication: SQL, types, changes of tables, rows, loads, results, copies written by Distributed tables, the loss of a node | a warehouse that replicates, through the REST API (\`oldest_version.test.ts\`): tables with three replicas, exact values, inserts by rows and by a statement, an update and a deletion while a server is killed that returns and catches up, a new column; the suites that every engine must pass for changes, statements, rows and checksums (\`suites.test.ts\`) | the replication layer (\`src/engines/clickhouse/replication/\`): ReplicatedMergeTree, inserts with a quorum of two, killed and frozen servers, lost disks, ZooKeeper down, when a server counts, what keeps one from leaving, servers that return |
| cannot show | ReplicatedMergeTree: such a node has no port for other replicas, and its replicated tables stay read-only. Warehouses on it are not replicated | Keeper (it is built without NuRaft), values of \`BINARY\` in text files (it lacks the functions of base64) | any SQL of the adapter: it lacks half of the statements. Users' warehouses need 24.8 |

What follows for a cluster of your own:

- **The suites that every engine must pass run on a cluster of your own** that \`CLICKHOUSE_TEST_URLS\` and \`CLICKHOUSE_TEST_CLUSTER\` name, with loads, the exact values and a
  catalog through the REST API (\`tests/engines/clickhouse/given_cluster/\`). On servers of 24.8.4.1 of that library and one ZooKeeper:

  | command, after \`node bin/runtime.js tests/engines/clickhouse/replicated_ring/on_oldest_version.ts\` | cluster | passed |
  |---|---|---|
  | \`-- npm test -- tests/engines/clickhouse/given_cluster\` | one shard of three replicas | 107 of 108 |
  | \`--shards=1,1,2,2 -- npm test -- tests/engines/clickhouse/given_cluster\` | two shards of two replicas | 107 of 108 |

  The other one loads values of every type from text files, of which \`BINARY\` needs the functions of base64 that the library lacks and ClickHouse's own builds have.
- **What 24.8 cannot do exactly:** a floating-point number that is a parameter of a statement may differ in its last digit, and the smallest ones become 0 (\`5e-324\`);
  rows, loads and texts in statements are exact. Maps whose keys are arrays, maps or structs cannot be read (\`SQL_NOT_SUPPORTED\`).
- **Faults on 24.8 that replicates:** servers, nodes, ZooKeeper and the store are killed, frozen and cut from each other while tables are changed, written and read,
  a catalog moves, and nodes are decommissioned, cancelled and returned (\`tests/faults/cluster/replicas.test.ts\`, and longer in \`npm run soak\`).
  At each step of a decommission and of its cancellation the server, the node that leaves or another one is killed or frozen, a fault of ZooKeeper is made, or the store is
  restarted (\`tests/faults/cluster/decommissions.test.ts\`, a sample).
- **Not run with replication on a supported version:** the tests that cut single connections or damage copies (\`lost_server.test.ts\`, \`left_writes.test.ts\`,
  \`half_done.test.ts\`: they are about copies without replication).
- **No cluster of the tests has both a current version and replication.** What differs there between 18.16 and a current version is guarded by version
  (\`replication_features.ts\`): tokens of inserts, several quorums at once, waiting for parts without merges, deleting what a lost replica left in Keeper,
  and the session by which a replica is active. These branches of current versions have not run against ClickHouse Keeper.
- **Two replicas have a row before it is acknowledged** where a shard has three or more: an insert asks for a quorum of two. No acknowledged row was lost
  on the cluster that replicates, with servers killed and their disks deleted, by inserts that go to a replica. The adapter inserts by the same
  code (\`replicated_inserts.ts\`), but into the Distributed table, with a token: that was shown on nodes that cannot replicate. With two replicas only one
  has a row for certain, because otherwise no row could be written while a server is down.
- **Before an insert responds, the other replicas take over its rows**, within 2 s. A server that does not takes no statements until it has caught up, so that
  a caller reads its own rows on any server.
- **Replicas that do not count** were shown not to be read on two shards of two replicas of 24.8 (\`replicated_ring/replicas_not_read.test.ts\`): one that is disabled, not
  registered or behind, by aggregates, searches by key, joins, subqueries, views, exports, copies, checksums, \`INSERT ... SELECT\` and DELETE on any server. It refuses to be
  read while its part of a statement is analyzed, also where it has none of the rows; 26.7 does that, too, on nodes that cannot replicate.
- **A server that was killed answers with what it has, which may be nothing**, until its former session with Keeper has expired, and none of its
  columns in \`system.replicas\` shows it. It counts again when its replicas are active by a session of its own process, and it has the parts that
  others have.
- A database of a catalog has the id of the catalog in its comment. Only by that, and not by its name, it belongs to the catalog: renames, drops, restores and
  decommissions leave other databases as they are, also those of other installations and operators (\`other_catalogs.test.ts\`). A change that needs the name of one
  is refused. The copy of a move gets the name of its catalog just before the switch; a move that is interrupted there and given up removes what it has copied.
- A server that returns gets definitions that it missed from the servers that count. A table that no other server has is dropped only if Keeper shows that
  its other replicas were dropped; otherwise it is moved to the database \`_tabularium_aside\`. Databases of a catalog that the store does not know are left as they
  are, unless another server has recorded that this catalog was dropped: it may be of another installation. A decommission drops the same.
- A creation of a table that finds a local table of its name looks which creation has made it: by its path in Keeper or, where nothing replicates, by its
  comment. That of another one is replaced; with rows, it is moved to \`_tabularium_aside\` first.
- The rows of an insert are one block, which each shard stores whole or not at all, and once, however often it is sent.
- **Backups** were shown on two shards of 26.7 that two servers of Tabularium write to (\`tests/servers/clusters/backup.test.ts\`): no half of a write, nothing
  without what it depends on, everything that was acknowledged before; with the server that takes the backup killed, too. The files hold values of all types
  exactly on 26.7 (shards and copies) and on 24.8 that replicates (\`tests/conformance/engine/checksums.test.ts\`). At steps of a backup and of a restore,
  servers, nodes and the store were killed, frozen and restarted (\`tests/faults/cluster/steps.test.ts\`, a sample).
- **Writes that are interrupted on clusters that replicate** were shown on two shards of two replicas of 24.8 (\`replicated_ring/interrupted_writes.test.ts\`): an
  UPDATE, a DELETE and an \`INSERT ... SELECT\` that one shard has and the other one lacks, keyed inserts before and after they are published, a repetition
  on replicas that have not heard of the mutation.
- **What arrives late** was shown with proxies that hold statements back: a truncate, drop, rename or alteration that reaches a server after another server of
  Tabularium has repeated it, or a creation after it was undone, does nothing, on nodes of 26.7 (\`late_changes.test.ts\`), and from one replica to another on 24.8
  (\`replicated_ring/changes_meanwhile.test.ts\`); of two attempts of a write at the same time, one is done (\`repeated_meanwhile.test.ts\`), and one
  that was begun by a server whose clock is ahead keeps none from that. A replica that
  neither server reaches while the change is repeated is not covered: what a network delivers to it afterwards, it does.
`;
