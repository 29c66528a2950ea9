// The declaration of `checksum` of a table.
import { strictObject } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { taskFields } from '../task_fields.ts';

export const tableChecksumApi = {
  checksum: action('object', {
    summary: 'Computes checksums of the columns of a table.',
    description:
      'Always a task (202). Tables with the same rows, in any order and on any engine, have the same checksums. Its result has `rowCount` and, for each column, its `nulls` and three `sums`.',
    permission: { privilege: 'read', on: 'object' },
    body: strictObject(taskFields),
    task: 'checksum_table',
    schedulable: true,
  }),
};
