// The open connections, counted by the address that they come from. What is over the limit is closed as it comes, before a
// byte of it is read; how many there may be in all is the server's own count.
import type { Socket } from 'node:net';
import { networkOf, plainPeer, type Trusts } from './client_address.ts';

export interface ConnectionsOptions {
  /** 0 is no limit. */
  readonly perAddressMax: number;
  /** Many clients stand behind a proxy, so it has no limit of its own. */
  readonly trusts: Trusts;
}

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #open = new Set<Socket>();
  readonly #perNetwork = new Map<string, number>();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  /** False for one too many, which is closed. */
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
      const left = (this.#perNetwork.get(network) as number) - 1;
      if (left === 0) this.#perNetwork.delete(network);
      else this.#perNetwork.set(network, left);
    });
    return true;
  }

  /** Closes what is left, also what has not ended its TLS handshake and is no HTTP connection yet. */
  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }
}
