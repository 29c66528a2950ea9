// The SQL dialect for highlighting and for keywords, and the colours of the editor, which are those of the theme.
import { PostgreSQL, SQLDialect, sql } from '@codemirror/lang-sql';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

/** The words and functions of the engine that PostgreSQL lacks. */
const moreKeywords =
  'qualify sample pivot unpivot asof positional semi anti summarize exclude replace columns tablesample';
const functions =
  'abs arg_max arg_min array_agg avg ceil coalesce concat contains count current_date current_timestamp date_diff date_part date_trunc dayname ends_with epoch exp extract first floor format greatest hash ifnull isodow json_extract json_extract_string lag last last_day lead least left length levenshtein list list_aggregate list_contains ln log lower lpad ltrim make_date max md5 median min mode monthname now nullif ntile position power quantile_cont quantile_disc rank range regexp_extract regexp_matches regexp_replace repeat replace reverse right round row_number rpad rtrim sign split_part sqrt starts_with stddev string_agg strftime strip_accents strlen strptime substring sum trim trunc try_cast typeof unnest upper uuid var_pop variance week year';

export const functionNames: readonly string[] = functions.split(' ');

const dialect = SQLDialect.define({
  ...PostgreSQL.spec,
  keywords: `${PostgreSQL.spec.keywords} ${moreKeywords}`,
  builtin: functions,
  types: `${PostgreSQL.spec.types} tinyint hugeint uhugeint ubigint uinteger usmallint utinyint double string struct map list blob`,
});

export const sqlLanguage = sql({ dialect, upperCaseKeywords: true });
export const sqlDialect = dialect;

const highlighting = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: [tags.typeName, tags.standard(tags.name)], color: 'var(--code-function)' },
]);

const look = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--bg)', color: 'var(--text)', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)', borderLeftWidth: '2px' },
  '.cm-gutters': { backgroundColor: 'var(--bg)', color: 'var(--text-muted)', border: 'none' },
  '.cm-lineNumbers .cm-gutterElement': { padding: '0 8px 0 12px' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--bg-hover) 55%, transparent)' },
  '.cm-runnable': { boxShadow: 'inset 2px 0 0 var(--accent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-selectionMatch': { backgroundColor: 'color-mix(in srgb, var(--accent) 18%, transparent)' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': {
    backgroundColor: 'var(--bg-selected)',
    outline: '1px solid var(--accent)',
  },
  '.cm-placeholder': { color: 'var(--text-muted)' },
  '.cm-tooltip': {
    border: '1px solid var(--border)',
    borderRadius: '8px',
    backgroundColor: 'var(--bg-raised)',
    color: 'var(--text)',
    boxShadow: 'var(--shadow)',
    overflow: 'hidden',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--font-mono)', maxHeight: '16em' },
  '.cm-tooltip-autocomplete ul li': { padding: '3px 8px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--bg-selected)', color: 'var(--text)' },
  '.cm-completionDetail': { color: 'var(--text-muted)', fontStyle: 'normal', marginLeft: '12px' },
  '.cm-completionMatchedText': { color: 'var(--accent)', textDecoration: 'none', fontWeight: '600' },
  '.cm-diagnostic': { padding: '6px 10px', maxWidth: '60ch', whiteSpace: 'pre-wrap' },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--danger)' },
  '.cm-lintRange-error': {
    backgroundImage: 'none',
    textDecoration: 'underline wavy var(--danger)',
    textUnderlineOffset: '3px',
  },
  '.cm-panels': { backgroundColor: 'var(--bg-sunken)', color: 'var(--text)', borderColor: 'var(--border)' },
  '.cm-panel.cm-search label': { fontSize: '12px' },
  '.cm-textfield': { backgroundColor: 'var(--bg)', border: '1px solid var(--border-strong)', borderRadius: '4px' },
  '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--bg-raised)', border: '1px solid var(--border)' },
  '.cm-searchMatch': { backgroundColor: 'color-mix(in srgb, var(--warning) 30%, transparent)' },
});

export const editorLook = [look, syntaxHighlighting(highlighting)];
