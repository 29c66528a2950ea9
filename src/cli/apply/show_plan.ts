// The plan as a diff for a person, and as data.
import type { Output } from '../remote/output/output.ts';
import { bytesText } from '../remote/output/progress_line.ts';
import { placeText } from './files/declaration.ts';
import type { Difference, Plan, Size, Step, StepAction } from './plan/plan.ts';

type Style = Output['style'];

const signs: Readonly<Record<StepAction, string>> = { create: '+', change: '~', rewrite: '!', rename: '~', drop: '-' };
const colours: Readonly<Record<string, Parameters<Style>[0]>> = {
  '+': 'green',
  '~': 'yellow',
  '!': 'magenta',
  '-': 'red',
};

export function planText({ steps, undeclared, refusals, notes }: Plan, style: Style): string {
  const lines = steps.flatMap((step) => stepLines(step, style));
  if (undeclared.length > 0) {
    lines.push('not declared, and left as it is (--prune drops it):');
    for (const { title, size } of undeclared) lines.push(`    ${title}${sizeText(size)}`);
    lines.push('');
  }
  for (const note of notes) lines.push(`note: ${note}`, '');
  if (refusals.length > 0) {
    lines.push(style('red', 'what cannot be done:'));
    for (const { place, title, message } of refusals) lines.push(`  ${placeText(place)}: ${title}: ${message}`);
    lines.push('');
  }
  if (steps.length > 0 || refusals.length === 0) lines.push(summary(steps));
  return `${lines.join('\n').trimEnd()}\n`;
}

function stepLines({ action, title, differences, size, place }: Step, style: Style): string[] {
  const sign = signs[action];
  const shownPlace = place ? style('dim', `  (${placeText(place)})`) : '';
  const details = differences.flatMap((difference) => differenceLines(difference, style));
  return [
    `${style(colours[sign] ?? 'reset', `${sign} ${action} ${title}`)}${sizeText(size)}${shownPlace}`,
    ...details,
    '',
  ];
}

function differenceLines({ sign, field, from, to }: Difference, style: Style): string[] {
  const text = (each: string, line: string) => `    ${style(colours[each] ?? 'reset', `${each} ${line}`)}`;
  const isLong = [from, to].some((value) => value?.includes('\n'));
  if (!isLong) {
    const values = from !== undefined && to !== undefined ? `${from} → ${to}` : (to ?? from ?? '');
    return [text(sign, `${field}: ${values}`)];
  }
  const block = (each: string, value: string | undefined) =>
    value === undefined ? [] : value.split('\n').map((line) => text(each, `  ${line}`));
  return [text(sign, `${field}:`), ...block('-', from), ...block('+', to)];
}

function sizeText(size: Size | undefined): string {
  if (!size) return '';
  const rows = size.rows === null ? 'an unknown number of rows' : `${size.rows.toLocaleString('en-US')} rows`;
  return ` (${rows}${size.bytes === null ? '' : `, ${bytesText(size.bytes)}`})`;
}

const order: readonly StepAction[] = ['create', 'change', 'rename', 'rewrite', 'drop'];

function summary(steps: readonly Step[]): string {
  if (steps.length === 0) return 'nothing to change: the server has what the files declare';
  const counts = order.flatMap((action) => {
    const count = steps.filter((step) => step.action === action).length;
    return count === 0 ? [] : [`${count} to ${action}`];
  });
  return `plan: ${counts.join(', ')}`;
}

/** For `--json`. */
export const planRecord = ({ steps, undeclared, refusals, notes }: Plan) => ({
  steps: steps.map(({ action, title, uri, place, differences, size }) => ({
    action,
    object: title,
    uri,
    ...(place ? { place: placeText(place) } : {}),
    differences,
    ...(size ? { rows: size.rows, bytes: size.bytes } : {}),
  })),
  undeclared: undeclared.map(({ title, size }) => ({
    object: title,
    ...(size ? { rows: size.rows, bytes: size.bytes } : {}),
  })),
  refused: refusals.map(({ place, title, message }) => ({ place: placeText(place), object: title, message })),
  notes,
});
