// The text of a tab in CodeMirror: highlighting, completion, the error of the last run at its place, and the keys of the room.
import { closeBrackets, closeCompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab, toggleComment } from '@codemirror/commands';
import { bracketMatching, indentOnInput } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState, Prec, type Transaction } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { cspNonce } from '../../app/csp_nonce.ts';
import { runnableStatement } from './runnable_statement.ts';
import { completion, type NamesOfCatalog } from './sql_completion.ts';
import styles from './sql_editor.module.css';
import { editorLook, sqlLanguage } from './sql_language.ts';

/** What the room does with the editor. */
export interface EditorHandle {
  readonly view: EditorView;
  /** Replaces the selection. */
  insert(text: string): void;
}

/** An error at a place of the text, which its line and column say; both begin with 1. */
export interface TextError {
  /** Where the statement that failed begins in the text. */
  readonly start: number;
  readonly line: number | undefined;
  readonly column: number | undefined;
  readonly message: string;
}

interface SqlEditorProps {
  /** A text that the editor did not write itself replaces its own. */
  readonly text: string;
  readonly names: NamesOfCatalog;
  readonly error: TextError | undefined;
  readonly onChange: (text: string) => void;
  readonly onRun: () => void;
  readonly onCancel: () => void;
  readonly onFormat: () => void;
  readonly onSave: () => void;
  readonly onReady: (handle: EditorHandle | undefined) => void;
}

const handleOf = (view: EditorView): EditorHandle => ({
  view,
  insert: (text) => {
    view.dispatch(view.state.replaceSelection(text), { scrollIntoView: true });
    view.focus();
  },
});

export function SqlEditor(props: SqlEditorProps) {
  const { text, error, onReady } = props;
  const container = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  // The extensions are made once; what they call changes with each render.
  const latest = useRef(props);
  latest.current = props;

  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor owns its text; another tab is another editor
  useEffect(() => {
    const editor = new EditorView({
      parent: container.current as HTMLElement,
      state: EditorState.create({ doc: text, extensions: extensionsOf(() => latest.current) }),
    });
    view.current = editor;
    onReady(handleOf(editor));
    return () => {
      onReady(undefined);
      editor.destroy();
    };
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (editor && editor.state.doc.toString() !== text)
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    const editor = view.current;
    if (editor) editor.dispatch(setDiagnostics(editor.state, error ? diagnosticsOf(editor.state, error) : []));
  }, [error]);

  return <div ref={container} className={styles.editor} />;
}

/** A command after which no other sees the key; an open completion is closed by it. */
const handled = (run: () => void) => (view: EditorView) => {
  closeCompletion(view);
  run();
  return true;
};

const keys = (props: () => SqlEditorProps) =>
  Prec.highest(
    keymap.of([
      { key: 'Mod-Enter', run: handled(() => props().onRun()) },
      { key: 'Mod-Shift-Enter', run: handled(() => props().onCancel()) },
      { key: 'Shift-Alt-f', run: handled(() => props().onFormat()) },
      { key: 'Mod-s', run: handled(() => props().onSave()) },
      { key: 'Mod-/', run: toggleComment },
    ]),
  );

const extensionsOf = (props: () => SqlEditorProps) => [
  EditorView.cspNonce.of(cspNonce),
  EditorView.contentAttributes.of({ 'aria-label': 'SQL', tabindex: '0' }),
  keys(props),
  lineNumbers(),
  history(),
  drawSelection(),
  EditorState.allowMultipleSelections.of(true),
  indentOnInput(),
  bracketMatching(),
  closeBrackets(),
  highlightActiveLine(),
  highlightSelectionMatches(),
  search({ top: true }),
  lintGutter(),
  placeholder('SELECT …'),
  runnableStatement,
  sqlLanguage,
  editorLook,
  completion(() => props().names),
  keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
  EditorView.updateListener.of(({ docChanged, state, transactions }) => {
    if (docChanged && transactions.some((transaction: Transaction) => transaction.docChanged))
      props().onChange(state.doc.toString());
  }),
];

/** The error's line and column count from the start of its statement. */
function diagnosticsOf({ doc }: EditorState, { start, line = 1, column = 1, message }: TextError): Diagnostic[] {
  const first = doc.lineAt(Math.min(start, doc.length));
  const target = doc.line(Math.min(doc.lines, first.number + line - 1));
  const offset = line === 1 ? start - first.from : 0;
  const from = Math.min(target.to, target.from + offset + column - 1);
  const word = /^[\p{L}\p{N}_$."]+/u.exec(doc.sliceString(from, target.to))?.[0].length ?? 1;
  return [{ from, to: Math.min(doc.length, from + word), severity: 'error', message }];
}
