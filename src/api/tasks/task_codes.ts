// The codes with which a task of each type can fail, in `error.code` of its record. A failure with status 503 is retried, and ends the task as
// `TASK_ATTEMPTS_EXHAUSTED`, unless only an operator can resolve it.
import type { Code } from '../../standard/codes.ts';
import type { TaskType } from './task_types.ts';

/** `FORBIDDEN`, `OBJECT_NOT_FOUND`: the rights or the object existed when the task was submitted. */
const always = [
  'TASK_DEPENDENCY_FAILED',
  'TASK_INTERRUPTED',
  'TASK_ATTEMPTS_EXHAUSTED',
  'TASK_ENDED_ENGINE',
  'INTERNAL_ERROR',
  'FORBIDDEN',
  'OBJECT_NOT_FOUND',
  'CATALOG_DAMAGED',
] as const;

/** Of work in an engine. */
const engine = ['STATEMENT_TIMEOUT', 'STATEMENT_CANCELLED', 'MEMORY_LIMIT_EXCEEDED', 'SPILL_LIMIT_EXCEEDED'] as const;

/** Of SQL in the request, or in the definition of an object. */
const sql = [...engine, 'SQL_INVALID', 'SQL_NOT_SUPPORTED', 'SQL_FORBIDDEN_FUNCTION', 'STATEMENT_QUARANTINED'] as const;

const rows = ['CONSTRAINT_VIOLATED', 'DATA_INVALID'] as const;

const statement = [...sql, ...rows, 'PARAMETERS_INVALID'] as const;

const remote = ['HOST_NOT_ALLOWED', 'REMOTE_REFUSED', 'INVALID_PARAMETER'] as const;

const creating = ['OBJECT_ALREADY_EXISTS', 'INVALID_NAME'] as const;

const changing = [...sql, ...rows, 'CHANGE_NOT_SUPPORTED', 'IN_USE', 'INVALID_PARAMETER', 'VERSION_CONFLICT'] as const;

const load = [...sql, ...rows, ...remote] as const;

const codesByType = {
  run_query: [...statement, 'RESULT_QUOTA_EXCEEDED', 'FILE_QUOTA_EXCEEDED'],
  profile_query: statement,
  load_table: load,
  load_database: [...load, ...creating],
  create_filled_table: [...statement, ...creating, 'INVALID_PARAMETER'],
  alter_table: changing,
  rename_database: [...changing, ...creating],
  undrop_table: [...changing, ...creating],
  undrop_database: [...changing, ...creating],
  optimize_table: engine,
  checksum_table: engine,
  check_catalog: engine,
  move_catalog: [
    ...sql,
    ...rows,
    'MOVE_BLOCKED',
    'MOVE_NOT_POSSIBLE',
    'MOVE_VERIFICATION_FAILED',
    'NOT_SUPPORTED_BY_ENGINE',
    'INVALID_PARAMETER',
    'IN_USE',
    'FILE_QUOTA_EXCEEDED',
  ],
  decommission_backend: ['DECOMMISSION_BLOCKED', 'CHANGE_NOT_SUPPORTED', 'VERSION_CONFLICT'],
  export: [...sql, 'DATA_INVALID', 'PARAMETERS_INVALID', ...remote, 'FILE_QUOTA_EXCEEDED'],
  backup: [...engine, ...remote, 'DATA_INVALID'],
  restore: [...sql, ...rows, ...remote, ...creating, 'NOT_SUPPORTED_BY_ENGINE'],
  server_backup: [...remote, 'DATA_INVALID'],
} as const satisfies Readonly<Record<Exclude<TaskType, 'scheduled_request'>, readonly Code[]>>;

/**
 * The codes of a task that failed, sorted. Undefined for a run of a schedule whose action was refused: its code is one of those of
 * the action.
 */
export function taskCodesOf(type: TaskType): readonly Code[] | undefined {
  if (type === 'scheduled_request') return undefined;
  return [...new Set<Code>([...always, ...codesByType[type]])].sort();
}
