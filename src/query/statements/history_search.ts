// Search criteria of the statement history. The same criteria apply to running statements, which are in memory, and to finished ones,
// which are in the store.
import { type RawBuilder, sql } from 'kysely';
import { containing } from '../../model/text_patterns.ts';
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

/** Besides the owner, by whom the store finds statements at once. */
export const hasCriteria = ({ owner: _owner, ...filter }: QueryFilter): boolean => activeCriteria(filter).length > 0;

/** Whether statements match all criteria. */
export function matcherOf(filter: QueryFilter): (entry: QueryEntry) => boolean {
  const tests = activeCriteria(filter).map(testOf);
  return (entry) => tests.every((test) => test(entry));
}

function testOf([[operator, field], value]: readonly [Criterion, string | number]): (entry: QueryEntry) => boolean {
  const compare = comparisons[operator](value);
  return (entry) => {
    const actual = entry[field];
    return actual !== null && compare(actual);
  };
}

type Value = string | number;

const comparisons: Readonly<Record<Criterion[0], (value: Value) => (actual: Value) => boolean>> = {
  is: (value) => (actual) => actual === value,
  contains(value) {
    const contains = containing(String(value));
    return (actual) => contains(String(actual));
  },
  from: (value) => (actual) => actual >= value,
  before: (value) => (actual) => actual < value,
};

/** Conditions on the table `queries`, which more statements fulfil than match. */
export function toConditions(filter: QueryFilter): RawBuilder<boolean>[] {
  return activeCriteria(filter).flatMap(([[operator, , name], value]) => {
    const column = sql.ref(name);
    switch (operator) {
      case 'is':
        return sql<boolean>`${column} = ${value}`;
      case 'contains':
        return [];
      case 'from':
        return sql<boolean>`${column} >= ${value}`;
      default:
        return sql<boolean>`${column} < ${value}`;
    }
  });
}
