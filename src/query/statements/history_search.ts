// Search criteria of the statement history. The same criteria apply to running statements, which are in memory, and to finished ones,
// which are in the store.
import { type RawBuilder, sql } from 'kysely';
import type { QueriesTable } from '../../store/schema.ts';
import type { QueryEntry, QueryState } from './history_entry.ts';

/** Criteria are combined with AND. Times are in milliseconds since 1970. */
export interface QueryFilter {
  readonly state?: QueryState | undefined;
  /** Case-insensitive substrings. */
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
  /** Id of the user who submitted the statement. */
  readonly owner?: string | undefined;
}

type Criterion = readonly ['is' | 'contains' | 'from' | 'before', StoredField, keyof QueriesTable];
type StoredField = Exclude<keyof QueryEntry, 'runsOn' | 'queuePosition'>;

const criteria: Readonly<Record<keyof QueryFilter, Criterion>> = {
  state: ['is', 'state', 'state'],
  text: ['contains', 'sql', 'sql'],
  errorText: ['contains', 'errorMessage', 'error_message'],
  planText: ['contains', 'plan', 'plan'],
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

function activeCriteria(filter: QueryFilter): (readonly [Criterion, string | number])[] {
  return Object.entries(criteria).flatMap(([name, criterion]) => {
    const value = filter[name as keyof QueryFilter];
    return value === undefined ? [] : [[criterion, value] as const];
  });
}

export function matchesFilter(entry: QueryEntry, filter: QueryFilter): boolean {
  return activeCriteria(filter).every(([[operator, field], value]) => {
    const actual = entry[field];
    if (actual === null) return false;
    switch (operator) {
      case 'is':
        return actual === value;
      case 'contains':
        return String(actual).toLowerCase().includes(String(value).toLowerCase());
      case 'from':
        return actual >= value;
      default:
        return actual < value;
    }
  });
}

/** Conditions on the table `queries`. */
export function toConditions(filter: QueryFilter): RawBuilder<boolean>[] {
  return activeCriteria(filter).map(([[operator, , name], value]) => {
    const column = sql.ref(name);
    switch (operator) {
      case 'is':
        return sql<boolean>`${column} = ${value}`;
      case 'contains':
        return sql<boolean>`lower(${column}) like ${toLikePattern(String(value))} escape '\\'`;
      case 'from':
        return sql<boolean>`${column} >= ${value}`;
      default:
        return sql<boolean>`${column} < ${value}`;
    }
  });
}

const toLikePattern = (part: string) => `%${part.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`;
