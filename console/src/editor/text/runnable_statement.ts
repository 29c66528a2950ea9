// Marks the statement that Ctrl+Enter runs: a bar beside its lines, where the text has more than one.
import { type Range, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView } from '@codemirror/view';
import { type StatementSpan, statementAt, statementsOf } from './statements.ts';

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

/** What is selected, or the statement at the cursor. */
export function runnableSpan({ doc, selection: { main } }: Text): StatementSpan | undefined {
  if (!main.empty) return { from: main.from, to: main.to };
  return statementAt(doc.toString(), main.head);
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
