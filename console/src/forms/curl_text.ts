// A described call as a curl command, for a shell whose variable TOKEN has an access token.
import type { DescribedCall } from '../../../src/client/index.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export function curlText({ method, path, body }: DescribedCall, origin: string): string {
  const lines = [
    `curl -X ${method} ${quoted(origin + path)}`,
    '-H "Authorization: Bearer $TOKEN"',
    ...(body === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body, null, 2))}`]),
  ];
  return lines.join(' \\\n  ');
}
