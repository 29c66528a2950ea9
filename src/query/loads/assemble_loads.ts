// Assembles the parts of loads, into existing tables and into tables created for them.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { FileStore } from '../../files/file_store.ts';
import { type LoadParts, LoadPipeline } from './load_pipeline.ts';
import { type LoadFileOptions, LoadFiles } from './load_sources.ts';
import { Loads } from './loads.ts';
import { type DefinitionConversions, NewTableLoads } from './new_table_loads.ts';

type Options = Omit<LoadParts, 'files' | 'fileStore'> & {
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly loading: Omit<LoadFileOptions, 'spoolDirectory' | 'files' | 'serverOfFile'>;
  readonly serverOfFile?: LoadFileOptions['serverOfFile'];
  readonly spoolDirectory: string;
  readonly files: FileStore;
  readonly definitions: DefinitionConversions;
};

export function assembleLoads({ loading, spoolDirectory, files, serverOfFile, ...parts }: Options) {
  const { catalog, warehouses, authorizer, definitions } = parts;
  const loadFiles = new LoadFiles({ ...loading, spoolDirectory, files, serverOfFile });
  const pipeline = new LoadPipeline({ ...parts, files: loadFiles, fileStore: files });
  return {
    loads: new Loads({ catalog, authorizer, pipeline }),
    newTableLoads: new NewTableLoads({ catalog, warehouses, authorizer, pipeline, definitions }),
  };
}

export type AssembledLoads = ReturnType<typeof assembleLoads>;
