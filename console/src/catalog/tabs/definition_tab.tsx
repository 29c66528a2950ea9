// How a table or a view is created again: as SQL, and as the call that has everything of its definition.
import type { Client } from '../../../../src/client/index.ts';
import { CallPreview } from '../../forms/call_preview.tsx';
import { CodeBlock } from '../../ui/data/code_block.tsx';
import { PageBody } from '../../ui/layout/page.tsx';
import type { TableRecord } from '../object_ref.ts';
import { tableDdl, viewDdl } from './ddl.ts';

interface DefinitionProps<R> {
  readonly path: readonly string[];
  readonly record: R;
}

const databaseIn = (client: Client, [catalog = '', database = '']: readonly string[]) =>
  client.catalogs(catalog).databases(database);

export function DefinitionTab({ path, record }: DefinitionProps<TableRecord>) {
  const columns = record.columns.map(({ name, type, nullable, defaultValue, comment }) => ({
    name,
    type,
    ...(nullable ? {} : { nullable }),
    ...(defaultValue === null ? {} : { defaultValue }),
    ...(comment === null ? {} : { comment }),
  }));
  const keys = {
    ...listIf('primaryKey', record.primaryKey),
    ...listIf('unique_key_constraints', record.unique_key_constraints),
    ...listIf('orderBy', record.orderBy),
    ...listIf('partitionBy', record.partitionBy),
  };
  const described = {
    ...(record.comment === null ? {} : { comment: record.comment }),
    ...(Object.keys(record.properties).length === 0 ? {} : { properties: record.properties }),
  };
  const body = { name: record.name, ...described, columns, ...keys };
  return (
    <PageBody label="Definition">
      <CodeBlock code={`${tableDdl(record)};`} label="SQL" />
      <CallPreview call={(client) => databaseIn(client, path).tables.create(body)} />
    </PageBody>
  );
}

const listIf = <K extends string>(name: K, list: readonly string[]): { readonly [N in K]?: readonly string[] } =>
  (list.length === 0 ? {} : { [name]: list }) as { readonly [N in K]?: readonly string[] };

interface ViewLike {
  readonly name: string;
  readonly comment: string | null;
  readonly sql: string;
}

export function ViewDefinitionTab({ path, record: { name, comment, sql } }: DefinitionProps<ViewLike>) {
  const body = { name, sql, ...(comment === null ? {} : { comment }) };
  return (
    <PageBody label="Definition">
      <CodeBlock code={`${viewDdl({ name, sql })};`} label="SQL" />
      <CallPreview call={(client) => databaseIn(client, path).views.create(body)} />
    </PageBody>
  );
}
