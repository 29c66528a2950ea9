// The schema of an object name. The handlers check names (model/names.ts), with a code of their own; only the OpenAPI document states
// the limits.
import { objectNameCharactersMax } from '../model/names.ts';
import { documentedLimits } from './documented_limits.ts';
import { Type } from './type.ts';

export const objectNameLimits = {
  minLength: 1,
  maxLength: objectNameCharactersMax,
  pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$',
} as const;

export const objectName = (description?: string) =>
  Type.String({ ...(description === undefined ? {} : { description }), [documentedLimits]: objectNameLimits });
