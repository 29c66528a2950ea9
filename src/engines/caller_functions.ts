// The SQL functions that return the caller. Only a statement whose text may call one of them is bound per caller; every other
// statement is analyzed and prepared once for all callers.

export const callerFunctions = ['current_role', 'current_user', 'session_user', 'user'] as const;

const callerFunctionPattern = new RegExp(String.raw`\b(?:${callerFunctions.join('|')})\b`, 'i');

/** True as well for a column, an alias or a string with such a name: only the engine's binder distinguishes them from calls. */
export const mayCallCallerFunction = (sql: string): boolean => callerFunctionPattern.test(sql);
