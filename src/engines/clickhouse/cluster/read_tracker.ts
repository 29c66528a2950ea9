// What work on a server has done so far: whether it can be repeated on another server when this one is lost.
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';

const reading = /^\s*(?:select|with|explain|describe|desc|show|exists)\b/i;

export class ReadTracker {
  /** Passes calls on and notes them. */
  readonly server: ClickHouseServer;
  /** No call that may have changed anything was sent. */
  hasOnlyRead = true;
  /** A response, or a part of one, was received. */
  hasBytes = false;

  constructor(server: ClickHouseServer) {
    const sent = ({ sql, data }: ServerCall) => {
      if (!reading.test(sql) || data !== undefined) this.hasOnlyRead = false;
    };
    const received = <T>(value: T): T => {
      this.hasBytes = true;
      return value;
    };
    this.server = {
      name: server.name,
      get version() {
        return server.version;
      },
      text: async (call) => {
        sent(call);
        return received(await server.text(call));
      },
      rows: async <Row extends object>(call: ServerCall) => {
        sent(call);
        return received(await server.rows<Row>(call));
      },
      stream: async (call) => {
        sent(call);
        return received(await server.stream(call));
      },
    };
  }
}
