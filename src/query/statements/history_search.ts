// What can be looked for in the history of statements: the same criteria on those that run, which are in memory, and on those that
// ended, which are in the store.
import { type RawBuilder, sql } from 'kysely';
import type { QueriesTable } from '../../store/schema.ts';
import type { QueryEntry, QueryState } from './history_entry.ts';

/** All that is given must fit. Times in milliseconds since 1970. */
export interface QueryFilter {
  readonly state?: QueryState | undefined;
  /** Parts of texts, of which case does not count. */
  readonly text?: string | undefined;
  readonly errorText?: string | undefined;
  readonly planText?: string | undefined;
  readonly kind?: string | undefined;
  readonly warehouse?: string | undefined;
  readonly catalog?: string | undefined;
  readonly database?: string | undefined;
  readonly submittedBy?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly submittedFrom?: number | undefined;
  readonly submittedBefore?: number | undefined;
  readonly elapsedMsMin?: number | undefined;
  readonly queuedMsMin?: number | undefined;
  readonly rowCountMin?: number | undefined;
  readonly resultBytesMin?: number | undefined;
  /** Only those of one user. */
  readonly owner?: string | undefined;
}

type Criterion = readonly ['is' | 'holds' | 'from' | 'before', keyof QueryEntry, keyof QueriesTable];

const criteria: Readonly<Record<keyof QueryFilter, Criterion>> = {
  state: ['is', 'state', 'state'],
  text: ['holds', 'sql', 'sql'],
  errorText: ['holds', 'errorMessage', 'error_message'],
  planText: ['holds', 'plan', 'plan'],
  kind: ['is', 'kind', 'kind'],
  warehouse: ['is', 'warehouse', 'warehouse'],
  catalog: ['is', 'catalog', 'catalog'],
  database: ['is', 'database', 'database'],
  submittedBy: ['is', 'submittedBy', 'submitted_by'],
  errorCode: ['is', 'errorCode', 'error_code'],
  submittedFrom: ['from', 'submittedAt', 'submitted_at'],
  submittedBefore: ['before', 'submittedAt', 'submitted_at'],
  elapsedMsMin: ['from', 'elapsedMs', 'elapsed_ms'],
  queuedMsMin: ['from', 'queuedMs', 'queued_ms'],
  rowCountMin: ['from', 'rowCount', 'row_count'],
  resultBytesMin: ['from', 'resultBytes', 'result_bytes'],
  owner: ['is', 'owner', 'owner'],
};

function given(sought: QueryFilter): (readonly [Criterion, string | number])[] {
  return Object.entries(criteria).flatMap(([name, criterion]) => {
    const value = sought[name as keyof QueryFilter];
    return value === undefined ? [] : [[criterion, value] as const];
  });
}

export function matchesFilter(entry: QueryEntry, sought: QueryFilter): boolean {
  return given(sought).every(([[how, field], value]) => {
    const has = entry[field];
    if (has === null) return false;
    switch (how) {
      case 'is':
        return has === value;
      case 'holds':
        return String(has).toLowerCase().includes(String(value).toLowerCase());
      case 'from':
        return has >= value;
      default:
        return has < value;
    }
  });
}

/** For rows of `queries`. */
export function conditionsOf(sought: QueryFilter): RawBuilder<boolean>[] {
  return given(sought).map(([[how, , name], value]) => {
    const column = sql.ref(name);
    switch (how) {
      case 'is':
        return sql<boolean>`${column} = ${value}`;
      case 'holds':
        return sql<boolean>`lower(${column}) like ${patternOf(String(value))} escape '\\'`;
      case 'from':
        return sql<boolean>`${column} >= ${value}`;
      default:
        return sql<boolean>`${column} < ${value}`;
    }
  });
}

const patternOf = (part: string) => `%${part.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`;
