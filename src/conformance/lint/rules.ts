// All rules for OpenAPI documents, and their findings in one.
import { outsideReferences, type Path, pointerOf } from '../document/nodes.ts';
import { readOpenApi } from '../document/openapi.ts';
import { envelopeRules } from './envelope_rules.ts';
import { methodRules } from './method_rules.ts';
import { parameterRules } from './parameter_rules.ts';
import { pathRules } from './path_rules.ts';
import type { Finding, Rule } from './rule.ts';

export const rules: readonly Rule[] = [...pathRules, ...methodRules, ...envelopeRules, ...parameterRules];

export interface RuleFinding {
  readonly rule: Rule;
  readonly message: string;
  readonly at: Path;
  /** The place as a JSON pointer. */
  readonly pointer: string;
}

/** The findings of a rule, one for each place. */
export function findingsOf(rule: Rule, document: unknown): RuleFinding[] {
  const byPlace = new Map<string, RuleFinding>();
  for (const { message, at } of rule.check(readOpenApi(document)) as readonly Finding[]) {
    const pointer = pointerOf(at);
    if (!byPlace.has(pointer)) byPlace.set(pointer, { rule, message, at, pointer });
  }
  return [...byPlace.values()];
}

export const notesOf = (rule: Rule, document: unknown): readonly string[] => rule.notes?.(readOpenApi(document)) ?? [];

/** In the order of the rules. @param document the parsed document, for which `isOpenApi` is true. */
export const lint = (document: unknown, selected: readonly Rule[] = rules): RuleFinding[] =>
  selected.flatMap((rule) => findingsOf(rule, document));

/** What was not checked, because it is in other documents. */
export const unreadReferences = (document: unknown): string[] => outsideReferences({ value: document, at: [] });
