// Builds one SQL statement from a request that changes rows (TableWrite in engine.ts). The engine checks each part first: that it is a single
// expression, or a single query.
import { Failure } from '../../standard/failure.ts';
import type { BuiltStatement, SqlFragment, TableWrite } from '../port/statements.ts';

export interface PartChecks {
  /** Throws if the part is not a single expression. */
  expression(part: SqlFragment): Promise<void>;
  /** @returns the text of the query, without a semicolon. Throws if the part is not a single query. */
  query(part: SqlFragment): Promise<string>;
}

interface Names {
  /** As it appears in the statement. */
  readonly table: string;
  readonly quote: (name: string) => string;
}

/** Throws what the checks throw. */
export async function writtenStatement(write: TableWrite, names: Names, checks: PartChecks): Promise<BuiltStatement> {
  const { table, quote } = names;
  const text = new StatementText();
  const expression = async (part: SqlFragment): Promise<void> => {
    await checks.expression(part);
    text.addParenthesized(part, part.text);
  };
  if (write.kind === 'insert') {
    const columns = write.columns ? ` (${write.columns.map(quote).join(', ')})` : '';
    text.add(`INSERT INTO ${table}${columns} `);
    text.addParenthesized(write.query, await checks.query(write.query));
    return text.build();
  }
  if (write.kind === 'delete') text.add(`DELETE FROM ${table}`);
  else {
    text.add(`UPDATE ${table} SET `);
    for (const [i, { column, value }] of write.set.entries()) {
      text.add(`${i === 0 ? '' : ', '}${quote(column)} = `);
      await expression(value);
    }
  }
  text.add(' WHERE ');
  await expression(write.where);
  return text.build();
}

/** Each part of a request starts on its own line, so that a position in the statement can be mapped to the part. */
class StatementText {
  #sql = '';
  #line = 1;
  readonly #parts: { pointer: string; line: number }[] = [];

  add(text: string): void {
    this.#sql += text;
  }

  addParenthesized({ pointer }: SqlFragment, text: string): void {
    this.#parts.push({ pointer, line: ++this.#line });
    this.#sql += `(\n${text}\n)`;
    this.#line += text.split('\n').length;
  }

  build(): BuiltStatement {
    return { sql: this.#sql, parts: this.#parts };
  }
}

/** Where a part begins. */
const startPosition = { line: 1, column: 1 };

/** `what`: such as `expression`. */
export const notSingle = (part: SqlFragment, what: string): Failure =>
  new Failure('SQL_INVALID', `${part.pointer}: the text is not a single ${what}`, {
    ...startPosition,
    pointer: part.pointer,
  });

/** A Failure with the pointer to the part of the request, unless it has one; any other error is returned as it is. */
export function failureIn({ pointer }: SqlFragment, error: unknown): unknown {
  if (!(error instanceof Failure) || 'pointer' in error.result) return error;
  return new Failure(error.code, `${pointer}: ${error.message}`, { ...error.result, pointer });
}
