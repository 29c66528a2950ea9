// Counts open connections by client address. A connection over the limit is closed before a byte of it is read. The HTTP server limits
// their total number.
import type { Socket } from 'node:net';
import { networkOf, plainPeer, type Trusts } from './client_address.ts';

export interface ConnectionsOptions {
  /** 0 means no limit. */
  readonly perAddressMax: number;
  /** A trusted proxy has no limit, because it serves many clients. */
  readonly trusts: Trusts;
}

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #open = new Set<Socket>();
  readonly #perNetwork = new Map<string, number>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  /** Closes the connection and returns false when it exceeds the limit. */
  admit(socket: Socket): boolean {
    const { perAddressMax, trusts } = this.#options;
    const address = plainPeer(socket.remoteAddress);
    const network = perAddressMax === 0 || trusts(address) ? undefined : networkOf(address);
    if (network === undefined) {
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
      return true;
    }
    const count = this.#perNetwork.get(network) ?? 0;
    if (count >= perAddressMax) {
      socket.destroy();
      return false;
    }
    this.#open.add(socket);
    this.#perNetwork.set(network, count + 1);
    socket.once('close', () => {
      this.#open.delete(socket);
      const remaining = (this.#perNetwork.get(network) as number) - 1;
      if (remaining === 0) this.#perNetwork.delete(network);
      else this.#perNetwork.set(network, remaining);
    });
    return true;
  }

  /** Closes the remaining connections, including those whose TLS handshake has not finished. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }
}
