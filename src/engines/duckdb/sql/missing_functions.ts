// Reports missing functions and types with qualified names. The engine's own message depends on whether the catalog in the name exists in
// its process, which would reveal catalogs that other principals use: no check of table names covers the names of functions and types.
import { Failure } from '../../../standard/failure.ts';
import { sqlInvalid } from '../instance/sql_errors.ts';
import { foldedName } from './identifiers.ts';
import { contentOf, tokensOf } from './statement_checks.ts';
import { scanTableNames } from './table_name_scan.ts';

const missingCatalog = /^Catalog "(.*)" does not exist!/s;
const missingEntry =
  /^(?:[A-Z]\w* )*(?:Function|Macro|Type) with name "?(.*?)"? (?:does not exist!|is not in the catalog)/s;
const part = /^(?:"|[\p{L}_]|[\u0080-\u{10ffff}])/u;

interface QualifiedName {
  readonly parts: readonly string[];
  readonly start: number;
}

/** The same failure for every name of three parts or more, whether its catalog, its schema or only its last part is missing. */
export function withoutCatalogs(error: Error, sql: string): Error {
  if (!(error instanceof Failure) || error.code !== 'SQL_INVALID') return error;
  const [, catalog] = missingCatalog.exec(error.message) ?? [];
  const [, entry] = missingEntry.exec(error.message) ?? [];
  if (catalog === undefined && entry === undefined) return error;
  const tables = new Set(scanTableNames(sql).map((parts) => JSON.stringify(parts)));
  const named = qualifiedNames(sql).find(
    ({ parts }) =>
      !tables.has(JSON.stringify(parts)) &&
      (entry === undefined
        ? foldedName(parts[0] ?? '') === foldedName(catalog ?? '')
        : foldedName(parts.at(-1) ?? '') === foldedName(entry)),
  );
  if (!named) return error;
  return sqlInvalid(`the function or type ${JSON.stringify(named.parts.join('.'))} does not exist`, sql, named.start);
}

function qualifiedNames(sql: string): QualifiedName[] {
  const found: QualifiedName[] = [];
  let parts: string[] = [];
  let start = 0;
  let afterDot = false;
  const end = () => {
    if (parts.length > 2) found.push({ parts, start });
    parts = [];
  };
  for (const token of tokensOf(sql)) {
    const isPart = part.test(token.text);
    if (isPart && !afterDot) end();
    if (isPart) {
      if (parts.length === 0) start = token.start;
      parts.push(contentOf(token.text));
    } else if (token.text !== '.') end();
    afterDot = token.text === '.';
  }
  end();
  return found;
}
