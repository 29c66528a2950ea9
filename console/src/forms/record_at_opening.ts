// The record that a form changes, as it was when the form was opened. Pages read their records again and again: a form that saved what differs
// from the newest one, with its version, would undo what somebody else has changed meanwhile, without a VERSION_CONFLICT.
import { useState } from 'react';

export const useRecordAtOpening = <R extends object | undefined>(record: R): R => useState(() => record)[0];
