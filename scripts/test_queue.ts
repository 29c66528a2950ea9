// Which test files run in one process, and in which order. Files that mostly wait, for servers of databases and their leases, begin first:
// others use the processors meanwhile, and none of the longest is the last to end.
import { dirname, relative, sep } from 'node:path';

/** Files of a room that run in one process, one after the other: each start and import of the server costs half a second. */
const groupFilesMax = 6;
/** Rooms with files that run for long, or that change or measure their own process. */
const separateRooms = ['console', 'every_endpoint', 'faults', 'fuzz', 'package', 'runner', 'sandbox', 'soak', 'style'];
/** Rooms whose files start clusters of ClickHouse or PostgreSQL, and use a small part of the processors while they run. */
const waitingRooms = ['engines/clickhouse', 'faults/cluster', 'servers', 'store', 'store_migrate'];

/** The files of one process. */
export type TestGroup = readonly string[];

const isIn = (room: string, rooms: readonly string[]): boolean =>
  rooms.some((each) => room === each || room.startsWith(`${each}/`));

const roomOf = (file: string, testDirectory: string): string =>
  relative(testDirectory, dirname(file)).split(sep).join('/');

/** Those that run for long begin first. */
function groupsOf(files: readonly string[], testDirectory: string): { room: string; group: TestGroup }[] {
  const groups = [...Map.groupBy(files, (file) => roomOf(file, testDirectory))].flatMap(([room, files]) => {
    const count = Math.ceil(files.length / (isIn(room, separateRooms) ? 1 : groupFilesMax));
    const size = Math.ceil(files.length / count);
    return Array.from({ length: count }, (_, i) => ({ room, group: files.slice(i * size, (i + 1) * size) }));
  });
  return groups.toSorted((a, b) => a.group.length - b.group.length);
}

export class TestQueue {
  readonly #waiting: TestGroup[] = [];
  readonly #computing: TestGroup[] = [];

  /** @param testDirectory in which the rooms are. */
  constructor(files: readonly string[], testDirectory: string) {
    for (const { room, group } of groupsOf(files, testDirectory))
      (isIn(room, waitingRooms) ? this.#waiting : this.#computing).push(group);
  }

  /** Those that have not begun. */
  get files(): readonly string[] {
    return [...this.#waiting, ...this.#computing].flat();
  }

  /** The next for a process that always runs one: those that wait, so that they end early. */
  next(): TestGroup | undefined {
    return this.#waiting.shift() ?? this.#computing.shift();
  }

  /** The next for processors that are idle. */
  nextForIdle(): TestGroup | undefined {
    return this.#computing.shift() ?? this.#waiting.shift();
  }

  clear(): void {
    this.#waiting.length = 0;
    this.#computing.length = 0;
  }
}
