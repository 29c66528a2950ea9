// Whether an endpoint declares the code of a failure: one that it does not declare is in no document and no client's plan.
import { categoriesWith } from '../src/resources/index.ts';
import type { Code } from '../src/standard/codes.ts';
import { actionOf, type Endpoint } from '../src/standard/endpoint.ts';
import { codesOf } from '../src/standard/openapi/endpoint_codes.ts';
import { Routes } from '../src/standard/paths.ts';

const routes = new Routes(categoriesWith({ rowsBodyBytesMax: 1 }));
/** Of requests that reach no endpoint. */
const withoutEndpoint: ReadonlySet<string> = new Set(['0', 'API_NOT_FOUND', 'METHOD_NOT_ALLOWED', 'MALFORMED_HTTP']);

/** @returns what is wrong with the code of an answer; undefined: nothing. */
export function undeclared(method: string, path: string, code: string): string | undefined {
  if (withoutEndpoint.has(code)) return undefined;
  const { endpoint, category } = routes.resolve(method, path.split('?', 1)[0] as string);
  if (codesOf(endpoint as Endpoint).includes(code as Code)) return undefined;
  return `${category.name}.${actionOf(endpoint)} does not declare ${code}`;
}
