// The admission request of tests in which it does not matter who the caller is.
import type { AdmissionRequest } from '../src/engines/admission.ts';

export const admissionRequest: AdmissionRequest = { principal: { id: 'tester' }, signal: new AbortController().signal };
