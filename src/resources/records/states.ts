// The states that records show (rest-standard B4). Their schemas: api/states.ts.
import type { CatalogObject } from '../../catalog/object.ts';

export const engineStateOf = ({ state, stateReason }: CatalogObject) => ({ state, stateReason });

export const enabledStateOf = (disabled: boolean | undefined) =>
  ({ state: disabled === true ? 'disabled' : 'enabled' }) as const;
