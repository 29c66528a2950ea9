// What the main thread and the threads that convert rows to files say to each other.
import type { Code, RequestOutcome } from '../../../standard/codes.ts';
import type { ExportedFile, ExportInto } from '../../port/export.ts';
import type { ResultColumn } from '../../port/statements.ts';

export interface ConversionRequest {
  readonly into: ExportInto;
  /** It exists, and belongs to this conversion. */
  readonly directory: string;
  readonly rowsMax: number | undefined;
}

export interface ConvertedFiles {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  readonly truncated: boolean;
  readonly entries: readonly ExportedFile[];
}

/** `rows`: the next bytes of the rows, as the server streams them. */
export type ThreadRequest =
  | { readonly kind: 'begin'; readonly request: ConversionRequest }
  | { readonly kind: 'rows'; readonly rows: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'end' };

/** `taken`: for each `rows`. After a failure the thread does nothing more. */
export type ThreadAnswer =
  | { readonly kind: 'taken' }
  | { readonly kind: 'files'; readonly files: ConvertedFiles }
  | {
      readonly kind: 'failure';
      readonly code: Code;
      readonly message: string;
      readonly result: Readonly<Record<string, unknown>>;
      readonly outcome: RequestOutcome | undefined;
    }
  | { readonly kind: 'fault'; readonly text: string };
