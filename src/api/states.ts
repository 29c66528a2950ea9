// The states in records (rest-standard B4): closed lists with the meaning of each state, including those that several categories
// share.
import { Type } from '../standard/type.ts';
import { nullable } from './fields.ts';

/** A state of a closed list. */
export function stateField<const S extends string>(
  states: Readonly<Record<S, string>>,
  options: { readonly title?: string } = {},
) {
  const names: S[] = [];
  for (const name in states) names.push(name);
  const description = names.map((name) => `\`${name}\`: ${states[name]}`).join('; ');
  return Type.Enum(names, { ...options, type: 'string', description: `${description}.` });
}

/** The states of objects with a part in an engine. */
export const engineStates = {
  creating: 'it is being created',
  ready: 'it is in use',
  altering: 'a change of it is under way',
  blocked: 'an interrupted change of it could not be recovered; its next change or deletion tries again',
  dropping: 'it is being dropped',
  dropped: 'it was dropped and can be restored',
  restoring: 'it is being restored',
  purging: 'its data is being deleted permanently',
} as const;
export const engineState = {
  state: stateField(engineStates, { title: 'ObjectState' }),
  stateReason: nullable(Type.String({ description: 'Why it cannot be used; null if it can.' })),
};
export const engineStateExample = { state: 'ready', stateReason: null };

/** The states of objects that can be disabled. */
export const enabledState = {
  state: stateField({ enabled: 'it is in use', disabled: 'it is disabled' }),
};

/** The state of objects that are active from their creation to their deletion. */
export const readyState = { state: stateField({ ready: 'it is in use' }) };

export const ready = { state: 'ready' } as const;
