// The report of a check, rule by rule, and its three formats. The same for documents (lint/) and servers (live/).
import type { Clause } from '../clauses.ts';

export interface ReportedFinding {
  readonly message: string;
  /** Where: a place in a document, or a request. */
  readonly place: string;
  /** Further fields, for JSON. */
  readonly details: Readonly<Record<string, unknown>>;
}

export interface ReportedRule {
  readonly id: string;
  readonly title: string;
  readonly clauses: readonly Clause[];
  readonly findings: readonly ReportedFinding[];
  /** What was observed where the standard leaves it to the service. */
  readonly notes: readonly string[];
  /** Why nothing was checked. */
  readonly skipped?: string;
}

export interface Report {
  /** The document or the base URL. */
  readonly subject: string;
  readonly rules: readonly ReportedRule[];
  /** Further fields, for JSON. */
  readonly details: Readonly<Record<string, unknown>>;
}

export const reportFormats = ['text', 'json', 'junit'] as const;
export type ReportFormat = (typeof reportFormats)[number];

export const findingCount = ({ rules }: Report): number =>
  rules.reduce((count, { findings }) => count + findings.length, 0);

export const rendered = (report: Report, format: ReportFormat): string => renderers[format](report);

const renderers: Readonly<Record<ReportFormat, (report: Report) => string>> = { text, json, junit };

const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

function text(report: Report): string {
  const lines: string[] = [];
  for (const { id, clauses, findings, notes, skipped } of report.rules) {
    for (const { place, message } of findings) lines.push(`${place}: ${id}: ${message}`);
    if (findings.length > 0) lines.push(...clauses.map(({ section, text: sentence }) => `    ${section}: ${sentence}`));
    for (const note of notes) lines.push(`note: ${id}: ${note}`);
    if (skipped !== undefined) lines.push(`not checked: ${id}: ${skipped}`);
  }
  const failed = report.rules.filter(({ findings }) => findings.length > 0).length;
  const skippedCount = report.rules.filter(({ skipped }) => skipped !== undefined).length;
  const checked = report.rules.length - skippedCount;
  const summary =
    failed === 0
      ? `${report.subject}: ${count(checked, 'rule')} kept`
      : `${report.subject}: ${count(findingCount(report), 'finding')} of ${count(failed, 'rule')}, ${count(checked - failed, 'rule')} kept`;
  lines.push(skippedCount === 0 ? summary : `${summary}, ${skippedCount} not checked`);
  return `${lines.join('\n')}\n`;
}

const outcomeOf = ({ findings, skipped }: ReportedRule): 'failed' | 'passed' | 'skipped' =>
  findings.length > 0 ? 'failed' : skipped === undefined ? 'passed' : 'skipped';

function json(report: Report): string {
  const { subject, details } = report;
  const rules = report.rules.map(({ findings, ...rule }) => ({
    ...rule,
    outcome: outcomeOf({ findings, ...rule }),
    findings: findings.map(({ message, place, details: more }) => ({ message, place, ...more })),
  }));
  return `${JSON.stringify({ subject, findingCount: findingCount(report), ...details, rules }, null, 2)}\n`;
}

/** Also without the control characters that XML 1.0 does not have. */
const xml = (value: string): string =>
  value
    .replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\n', '&#10;');

function junit(report: Report): string {
  const cases = report.rules.map((rule) => {
    const { id, title, clauses, findings, notes, skipped } = rule;
    const cited = clauses.map(({ section, text: sentence }) => `${section}: ${sentence}`);
    const body = [...findings.map(({ place, message }) => `${place}: ${message}`), ...cited].join('\n');
    const parts = [
      ...(findings.length > 0
        ? [`<failure message="${xml(count(findings.length, 'finding'))}">${xml(body)}</failure>`]
        : []),
      ...(findings.length === 0 && skipped !== undefined ? [`<skipped message="${xml(skipped)}"/>`] : []),
      ...(notes.length > 0 ? [`<system-out>${xml(notes.join('\n'))}</system-out>`] : []),
    ];
    const open = `    <testcase classname="rest-standard.${xml(clauses[0]?.section ?? '')}" name="${xml(`${id}: ${title}`)}"`;
    return parts.length === 0 ? `${open}/>` : `${open}>${parts.join('')}</testcase>`;
  });
  const failures = report.rules.filter((rule) => outcomeOf(rule) === 'failed').length;
  const skippedCount = report.rules.filter((rule) => outcomeOf(rule) === 'skipped').length;
  const attributes = `name="${xml(report.subject)}" tests="${report.rules.length}" failures="${failures}" skipped="${skippedCount}"`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n  <testsuite ${attributes}>\n${cases.join('\n')}\n  </testsuite>\n</testsuites>\n`;
}
