// Marks the statement that Ctrl+Enter runs: a bar beside its lines, where the text has more than one.
import { type Range, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView } from '@codemirror/view';
import { type StatementSpan, statementAt, statementsOf } from '../../../../src/client/statements.ts';

const mark = Decoration.line({ class: 'cm-runnable' });
/** Of longer texts only what is selected is run quickly; splitting them at each key would be slow. */
const charactersMax = 200_000;

interface Text {
  readonly doc: {
    readonly length: number;
    toString(): string;
    lineAt(position: number): { from: number; number: number };
  };
  readonly selection: {
    readonly main: { readonly from: number; readonly to: number; readonly head: number; readonly empty: boolean };
  };
}

/** What is selected, or the statement at the cursor; undefined if that is only space and comments. */
export function runnableSpan({ doc, selection: { main } }: Text): StatementSpan | undefined {
  const text = doc.toString();
  if (main.empty) return statementAt(text, main.head);
  return statementsOf(text.slice(main.from, main.to)).length === 0 ? undefined : { from: main.from, to: main.to };
}

/** Why `runnableSpan` finds nothing. */
export function reasonNothingRuns({ doc, selection: { main } }: Text): string {
  if (!main.empty)
    return 'The selection contains no statement. Select one, or select nothing to run the statement at the cursor.';
  const isBlank = doc.toString().trim() === '';
  return isBlank
    ? 'The editor is empty. Write a statement first.'
    : 'The text contains only comments. Write a statement first.';
}

function marksOf(state: EditorView['state']): DecorationSet {
  if (!state.selection.main.empty || state.doc.length > charactersMax) return Decoration.none;
  const text = state.doc.toString();
  const span = statementAt(text, state.selection.main.head);
  if (!span || statementsOf(text).length < 2) return Decoration.none;
  const marks: Range<Decoration>[] = [];
  for (let line = state.doc.lineAt(span.from); line.from <= span.to; line = state.doc.line(line.number + 1)) {
    marks.push(mark.range(line.from));
    if (line.number === state.doc.lines) break;
  }
  return Decoration.set(marks);
}

export const runnableStatement = StateField.define<DecorationSet>({
  create: marksOf,
  update: (marks, { docChanged, selection, state }) => (docChanged || selection ? marksOf(state) : marks),
  provide: (field) => EditorView.decorations.from(field),
});
