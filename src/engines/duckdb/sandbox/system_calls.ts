// System calls for which Node.js has no function, made through node:ffi on the calling thread. Linux on x64 and arm64.

/** Buffers are passed by their address. Throws with the error number of the kernel. */
export type SystemCall = (number: number, ...values: readonly (number | bigint | Buffer)[]) => number;

export interface SystemCalls {
  readonly call: SystemCall;
  /** The buffer must stay referenced as long as the kernel reads it. */
  readonly addressOf: (buffer: Buffer) => bigint;
}

export type Processor = 'x64' | 'arm64';

/** Throws if the system call numbers of the processor are not known. */
export function processor(): Processor {
  const { arch } = process;
  if (arch !== 'x64' && arch !== 'arm64') throw new Error(`${arch} is not supported`);
  return arch;
}

/** Throws if this Node.js has no node:ffi. */
export async function systemCalls(): Promise<SystemCalls> {
  const { dlopen, getInt32, getRawPointer } = await import('node:ffi').catch(() => {
    throw new Error('this Node.js has no node:ffi');
  });
  const { functions } = dlopen(null, {
    syscall: { return: 'i64', arguments: ['i64', 'i64', 'i64', 'i64', 'i64', 'i64'] },
    __errno_location: { return: 'pointer', arguments: [] },
  });
  const word = (value: number | bigint | Buffer) => (Buffer.isBuffer(value) ? getRawPointer(value) : BigInt(value));
  return {
    addressOf: getRawPointer,
    call: (number, ...values) => {
      const [a = 0n, b = 0n, c = 0n, d = 0n, e = 0n] = values.map(word);
      const result = Number(functions.syscall(BigInt(number), a, b, c, d, e));
      if (result === -1) throw new Error(`errno ${getInt32(functions.__errno_location())}`);
      return result;
    },
  };
}

const fcntl: Readonly<Record<Processor, number>> = { x64: 72, arm64: 25 };
const setDescriptorFlags = 2;

/** Keeps the descriptor open across execve; Node.js closes all but the standard ones. */
export function passOn(call: SystemCall, descriptor: number): void {
  call(fcntl[processor()], descriptor, setDescriptorFlags, 0);
}

const prctl: Readonly<Record<Processor, number>> = { x64: 157, arm64: 167 };
const setNoNewPrivs = 38;

/** A process without capabilities may apply neither Landlock nor a filter without it. */
export function setNoNewPrivileges(call: SystemCall): void {
  call(prctl[processor()], setNoNewPrivs, 1);
}
