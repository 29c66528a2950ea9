// For whom a test has an engine analyse statements, where it does not matter.
import type { AdmissionRequest } from '../src/engines/admission.ts';

export const admissionRequest: AdmissionRequest = { principal: { id: 'tester' }, signal: new AbortController().signal };
