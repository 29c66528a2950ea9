// What a file declares, and where: objects with the fields of the requests that create them. Errors are collected, so that one run reports all.
import { compareNames } from '../../../model/names.ts';
import { CommandError } from '../../remote/exit_codes.ts';
import type { Kind } from './kinds.ts';

export type Fields = Readonly<Record<string, unknown>>;

export interface Place {
  /** As the user has named it. */
  readonly file: string;
  /** Both from 1. */
  readonly line: number;
  readonly column: number;
}

export interface Declaration {
  readonly kind: Kind;
  /** The names of the objects above it, root first, and its own; a grant has its privilege and object instead of a name. */
  readonly path: readonly string[];
  /** The fields of the create request, without the name. */
  readonly fields: Fields;
  readonly renamedFrom: string | undefined;
  /** New names of columns by the names that they may still have. */
  readonly renamedColumns: Readonly<Record<string, string>>;
  readonly place: Place;
  /** Of a field, by its JSON pointer in the request. */
  placeOf(pointer: string): Place;
}

export const placeText = ({ file, line, column }: Place): string => `${file}:${line}:${column}`;

const errorsShownMax = 50;

/** Errors of the files. */
export class FileErrors {
  readonly #errors: { readonly place: Place; readonly message: string }[] = [];

  add(place: Place, message: string): void {
    this.#errors.push({ place, message });
  }

  /** Throws CommandError with all errors, by file and line. */
  throwIfAny(): void {
    if (this.#errors.length === 0) return;
    const inOrder = this.#errors.toSorted(
      ({ place: a }, { place: b }) => compareNames(a.file, b.file) || a.line - b.line || a.column - b.column,
    );
    const lines = inOrder
      .map(({ place, message }) => `${placeText(place)}: ${message}`)
      .filter((line, i, all) => all.indexOf(line) === i);
    const more = lines.length - errorsShownMax;
    const shown = [...lines.slice(0, errorsShownMax), ...(more > 0 ? [`${more} more errors`] : [])];
    throw new CommandError(
      'usage',
      `${shown.join('\n')}\nnothing was changed; correct the files and run the command again`,
    );
  }
}

/** For messages: `table default.shop.orders`. */
export function titleOf({ kind, path }: Pick<Declaration, 'kind' | 'path'>): string {
  const { holder } = kind;
  if (holder === undefined) return `${kind.name} ${path.map(partText).join('.')}`;
  const [name = '', privilege = '', on = ''] = path;
  return `grant ${privilege} on ${on} to ${holder} ${partText(name)}`;
}

/** The same of a record: `table default.shop.orders`. */
export function recordTitle({ uri }: Fields, singular: string): string {
  const names = String(uri)
    .split('/')
    .slice(3)
    .filter((_part, i) => i % 2 === 1);
  return `${singular} ${names.map((name) => partText(decodeURIComponent(name))).join('.')}`;
}

const partText = (name: string): string => (/^[\p{L}\p{N}_-]+$/u.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
