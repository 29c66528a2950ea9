// Encodes a request of the load generator as the bytes that are sent to the socket.
import type { RequestTemplate } from './load_job.ts';

export function requestBytes(template: RequestTemplate, n: number): Buffer {
  const fillTemplate = (text: string) =>
    text.replaceAll('{name}', String(n).padStart(6, '0')).replaceAll('{n}', String(n));
  const { bodies } = template;
  const body = bodies === undefined ? '' : fillTemplate(bodies[n % bodies.length] as string);
  const lines = [`${template.method} ${fillTemplate(template.path)} HTTP/1.1`, 'Host: 127.0.0.1'];
  for (const [name, value] of Object.entries(template.headers)) lines.push(`${name}: ${fillTemplate(value)}`);
  if (bodies !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
}
