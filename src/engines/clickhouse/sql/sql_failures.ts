// Failures about the statements of callers that are not offered.
import { Failure } from '../../../standard/failure.ts';
import { replacementsOfService } from '../../sql/refused_statements.ts';

/** The endpoint to use instead of each refused statement. */
const replacements: readonly (readonly [RegExp, string])[] = [
  ...replacementsOfService,
  [/^create\b.*\btable\b/is, 'use POST .../tables/create, which accepts this statement, to create tables'],
  [/^create\b.*\bview\b/is, 'use POST .../views/create, which accepts this statement, to create views'],
  [/^create\s+(schema|database)\b/i, 'use POST .../databases to create databases'],
  [/^(alter|rename|exchange)\b/i, 'use PATCH on the object and its actions to change it'],
  [/^optimize\b/i, 'use POST .../tables/{table}/optimize'],
  [/^(copy|export)\b/i, 'use POST .../export to write rows to files, and POST .../load to read rows from files'],
  [/^(drop|detach|undrop)\b/i, 'use DELETE on the object to drop it'],
  [/^truncate\b/i, 'use POST .../tables/{table}/truncate to truncate tables'],
  [
    /^(show|describe|desc|exists|check)\b/i,
    'use GET .../tables to list tables, and GET .../tables/{table} to describe one',
  ],
  [/^explain\b/i, 'use POST .../explain to show plans'],
  [/^use\b/i, 'the path of the request sets the default namespace'],
  [/^(begin|start|commit|rollback)\b/i, 'transaction control is not supported: each request is one statement'],
  [/^kill\b/i, 'use POST .../queries/{query}/cancel to cancel statements'],
];

/** SQL_NOT_SUPPORTED for a statement that is not offered as SQL. `start`: the text from its first word. */
export function refusedStatement(start: string): Failure {
  const head = start.slice(0, 200);
  const hint = replacements.find(([pattern]) => pattern.test(head))?.[1];
  return new Failure('SQL_NOT_SUPPORTED', hint ?? 'only SELECT, INSERT, UPDATE and DELETE can be run as SQL');
}

export const forbiddenFunction = (name: string, why = 'is not available'): Failure =>
  new Failure('SQL_FORBIDDEN_FUNCTION', `the function ${JSON.stringify(name)} ${why}`, { function: name });
