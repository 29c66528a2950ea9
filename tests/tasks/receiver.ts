// A receiver of webhooks, as a small HTTP server: stores the requests, and responds as configured.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Notice {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly task: Readonly<Record<string, unknown>>;
}

export class Receiver {
  readonly notices: Notice[] = [];
  /** The statuses of the next responses; the last one is repeated. */
  statuses: number[] = [204];
  /** Responses wait for it. */
  answered: Promise<void> = Promise.resolve();
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = Buffer.concat(chunks).toString();
      const { task } = JSON.parse(body) as Pick<Notice, 'task'>;
      this.notices.push({ headers: request.headers, body, task });
      await this.answered;
      const status = (this.statuses.length > 1 ? this.statuses.shift() : this.statuses[0]) ?? 204;
      if (status === 0) return void request.socket.destroy();
      response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end();
    });
  });

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook?key=in+the+address`;
  }

  noticesOf(taskId: unknown): Notice[] {
    return this.notices.filter(({ task }) => task.taskId === taskId);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
