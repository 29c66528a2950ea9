// Statements sent to a ClickHouse node over HTTP, as a user would without the product.
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';

async function post(url: string, query: string, body?: Readable): Promise<Response> {
  const init = {
    method: 'POST',
    body: body === undefined ? '' : (Readable.toWeb(body) as ReadableStream),
    duplex: 'half',
  };
  const response = await fetch(`${url}/?${new URLSearchParams({ query })}`, init as RequestInit);
  if (!response.ok) throw new Error(await response.text());
  return response;
}

/** `body`: the data of an INSERT. */
export async function runOn(url: string, query: string, body?: Readable): Promise<void> {
  await (await post(url, query, body)).text();
}

export async function writeFileOf(url: string, query: string, file: string): Promise<void> {
  const { body } = await post(url, query);
  await pipeline(Readable.fromWeb(body as ReadableStream), createWriteStream(file));
}
