// For whom a test has an engine analyse statements, where it does not matter.
import type { Turn } from '../src/engines/admission.ts';

export const turn: Turn = { principal: { id: 'tester' }, signal: new AbortController().signal };
