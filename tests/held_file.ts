// A web server with one CSV file, `a` of which two rows arrive, the second when the test lets it.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

export async function heldFile(t: TestContext) {
  let rest = Promise.withResolvers<void>();
  let asked = Promise.withResolvers<void>();
  const web = createServer(async (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/csv' }).write('a\n1\n');
    asked.resolve();
    await rest.promise;
    response.end('2\n');
  });
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  t.after(() => web.close());
  return {
    source: { url: `http://127.0.0.1:${(web.address() as AddressInfo).port}/rows.csv` },
    /** Does something while the file that `send` asks for arrives. Later requests for it are answered at once. */
    async during<T>(send: () => Promise<T>, meanwhile: () => Promise<unknown>): Promise<T> {
      [rest, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const sent = await send();
      await asked.promise;
      await meanwhile();
      rest.resolve();
      return sent;
    },
  };
}
