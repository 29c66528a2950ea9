// PostgreSQL has no text with a NUL and refuses a parameter that contains one. Names and ids contain no control characters: what is searched by
// one with another is not found either, so a NUL in a condition is replaced. What is written is not changed.
import { type OperationNode, PostgresDialect, PostgresQueryCompiler } from 'kysely';
import { Slot } from '../prepared.ts';

const isWriting = ({ kind }: OperationNode): boolean => kind === 'InsertQueryNode' || kind === 'ColumnUpdateNode';
const searched = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\u0001') : value;

class SearchedTextsCompiler extends PostgresQueryCompiler {
  protected override appendValue(value: unknown): void {
    if (this.nodeStack.some(isWriting)) super.appendValue(value);
    else super.appendValue(value instanceof Slot ? new Slot(value.name, searched) : searched(value));
  }
}

/** For statements that contain texts of callers. */
export class SearchedTextsDialect extends PostgresDialect {
  override createQueryCompiler(): PostgresQueryCompiler {
    return new SearchedTextsCompiler();
  }
}
