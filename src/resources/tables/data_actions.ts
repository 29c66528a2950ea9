// The actions that change a table's rows or hand them out, together, for the category of tables.

import { exportTableApi } from '../../api/transfer/export_actions.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import type { Segment } from '../../standard/paths.ts';
import { endpointsOf } from '../records/handler_context.ts';
import { exportTable } from '../transfer/export_actions.ts';
import { tableWrites } from './table_writes.ts';

export const dataActions = (pathOf: (path: PathParameters) => Segment[]) => [
  ...tableWrites(pathOf),
  ...endpointsOf(exportTableApi, exportTable),
];
