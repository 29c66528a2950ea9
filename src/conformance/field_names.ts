// The names of fields (rest-standard A3), for the rules about documents and about the responses of a running service.

const camelCaseForm = /^[a-z][a-zA-Z0-9]*$/;
const exceptions = new Set(['unique_key_constraints']);
const uriForm = /^(uri|url|href|location|self)$|(Uri|Url)$/;

export const isCamelCase = (name: string): boolean => camelCaseForm.test(name);

export const isFieldName = (name: string): boolean => isCamelCase(name) || exceptions.has(name);

/** Whether the field is called like one that contains a URI. */
export const isUriName = (name: string): boolean => uriForm.test(name);
