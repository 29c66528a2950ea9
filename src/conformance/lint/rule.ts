// What a rule for OpenAPI documents is. The rules know nothing of Spectral: ruleset.ts offers them to it.
import type { Clause } from '../clauses.ts';
import type { Path } from '../document/nodes.ts';
import type { OpenApiDocument } from '../document/openapi.ts';

export interface Finding {
  /** What is wrong and what to do. */
  readonly message: string;
  /** The place in the document. */
  readonly at: Path;
}

export interface Rule {
  readonly id: string;
  /** One sentence: what a document keeps. */
  readonly title: string;
  readonly clauses: readonly Clause[];
  /** What the rule covers, and what it leaves out. */
  readonly doc: string;
  /** Fragments of a document in YAML, from its root; good has no finding of any rule, bad one of this rule and of no other. */
  readonly good: string;
  readonly bad: string;
  check(document: OpenApiDocument): readonly Finding[];
  /** What the standard leaves to the service. Absent: nothing. */
  notes?(document: OpenApiDocument): readonly string[];
}
