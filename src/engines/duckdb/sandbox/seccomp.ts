// The system call filter of an engine process: a BPF program for seccomp(2) that refuses calls that neither Node.js nor DuckDB
// needs, and calls that reach other processes, other file systems, the network or rarely used parts of the kernel.

import { type Processor, processor, type SystemCalls, setNoNewPrivileges } from './system_calls.ts';

/**
 * `audit`: the architecture constant in the filter; `column`: the index of the processor's numbers in a `Call`; `seccomp`: the
 * system call that installs a filter.
 */
const processors: Readonly<
  Record<Processor, { readonly audit: number; readonly column: 0 | 1; readonly seccomp: number }>
> = {
  x64: { audit: 0xc000003e, column: 0, seccomp: 317 },
  arm64: { audit: 0xc00000b7, column: 1, seccomp: 277 },
};

/** The system call number on x64 and arm64; undefined if the processor does not have the call. */
type Call = readonly [x64: number, arm64: number | undefined];
const sameNumber = (number: number): Call => [number, number];

/** Fail with EPERM for all arguments. */
const refused: Readonly<Record<string, Call>> = {
  // Other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  kcmp: [312, 272],
  pidfd_open: sameNumber(434),
  pidfd_getfd: sameNumber(438),
  pidfd_send_signal: sameNumber(424),
  process_madvise: sameNumber(440),
  process_mrelease: sameNumber(448),
  tkill: [200, 130],
  fork: [57, undefined],
  vfork: [58, undefined],
  unshare: [272, 97],
  setns: [308, 268],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  // Network and System V communication.
  socket: [41, 198],
  shmget: [29, 194],
  shmat: [30, 196],
  shmctl: [31, 195],
  semget: [64, 190],
  semop: [65, 193],
  semctl: [66, 191],
  semtimedop: [220, 192],
  msgget: [68, 186],
  msgsnd: [69, 189],
  msgrcv: [70, 188],
  msgctl: [71, 187],
  mq_open: [240, 180],
  // File systems.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: sameNumber(428),
  move_mount: sameNumber(429),
  fsopen: sameNumber(430),
  fsconfig: sameNumber(431),
  fsmount: sameNumber(432),
  fspick: sameNumber(433),
  mount_setattr: sameNumber(442),
  open_tree_attr: sameNumber(467),
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  fanotify_init: [300, 262],
  quotactl: [179, 60],
  quotactl_fd: sameNumber(443),
  swapon: [167, 224],
  swapoff: [168, 225],
  memfd_create: [319, 279],
  memfd_secret: sameNumber(447),
  // The kernel and the machine.
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: sameNumber(425),
  io_uring_enter: sameNumber(426),
  io_uring_register: sameNumber(427),
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  reboot: [169, 142],
  syslog: [103, 116],
  acct: [163, 89],
  vhangup: [153, 58],
  personality: [135, 92],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  iopl: [172, undefined],
  ioperm: [173, undefined],
  modify_ldt: [154, undefined],
  uselib: [134, undefined],
};

/** Fails with ENOSYS, so that the C library uses clone, whose flags a filter can read: those of clone3 are behind a pointer. */
const clone3 = sameNumber(435);
const clone: Call = [56, 220];
const ioctl: Call = [16, 29];
const kill: Call = [62, 129];
/** Their first argument is the signalled process. */
const signalling: readonly Call[] = [
  [234, 131], // tgkill
  [129, 138], // rt_sigqueueinfo
  [297, 240], // rt_tgsigqueueinfo
];
const prlimit: Call = [302, 261];

const eperm = 1;
const enosys = 38;
const allow = 0x7fff0000;
const killProcess = 0x80000000;
const fail = (errno: number) => 0x00050000 | errno;

const threadFlag = 0x00010000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. */
const namespaceFlags = 0x7e020000;
/** TIOCSTI and TIOCLINUX, which inject input into the terminal from which the server was started. */
const terminalInput = [0x5412, 0x541c];
/** System calls of the x32 interface of x64 have this bit. */
const x32Bit = 0x40000000;

const load = 0x20;
const jumpEqual = 0x15;
const jumpAtLeast = 0x35;
const jumpAnyBit = 0x45;
const give = 0x06;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
const numberOffset = 0;
const architectureOffset = 4;
/** Loads the lower half of an argument; both processors are little-endian. */
const argument = (index: number): Instruction => [load, 0, 0, 16 + index * 8];
const returns = (value: number): Instruction => [give, 0, 0, value];
/** Executes the next instruction only if the condition holds. */
const whereEqual = (value: number): Instruction => [jumpEqual, 0, 1, value];
const whereAnyBit = (value: number): Instruction => [jumpAnyBit, 0, 1, value];

/** `body` ends with a return. */
const onNumber = (number: number, body: readonly Instruction[]): Instruction[] => [
  [jumpEqual, 0, body.length, number],
  ...body,
];

/** The program in the kernel's format, 8 bytes per instruction. `pid`: the process that will become the engine. */
function seccompFilter(processor: Processor, pid: number): Buffer {
  const { audit, column } = processors[processor];
  const onCall = (call: Call, ...body: readonly Instruction[]) => {
    const number = call[column];
    return number === undefined ? [] : onNumber(number, body);
  };
  const firstArgumentIs = (values: readonly number[]): Instruction[] => [
    argument(0),
    ...values.flatMap((value) => [whereEqual(value), returns(allow)]),
  ];
  const program: Instruction[] = [
    [load, 0, 0, architectureOffset],
    [jumpEqual, 1, 0, audit],
    returns(killProcess),
    [load, 0, 0, numberOffset],
    ...(processor === 'x64' ? [[jumpAtLeast, 0, 1, x32Bit] as const, returns(fail(enosys))] : []),
    ...Object.values(refused).flatMap((call) => onCall(call, returns(fail(eperm)))),
    ...onCall(clone3, returns(fail(enosys))),
    ...onCall(
      clone,
      argument(0),
      whereAnyBit(namespaceFlags),
      returns(fail(eperm)),
      whereAnyBit(threadFlag),
      returns(allow),
      returns(fail(eperm)),
    ),
    // Signal 0 only checks whether a process exists.
    ...onCall(kill, ...firstArgumentIs([pid]), argument(1), whereEqual(0), returns(allow), returns(fail(eperm))),
    ...signalling.flatMap((call) => onCall(call, ...firstArgumentIs([pid]), returns(fail(eperm)))),
    ...onCall(prlimit, ...firstArgumentIs([0, pid]), returns(fail(eperm))),
    ...onCall(
      ioctl,
      argument(1),
      ...terminalInput.flatMap((request) => [whereEqual(request), returns(fail(eperm))]),
      returns(allow),
    ),
    returns(allow),
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [i, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, i * 8);
    bytes.writeUInt8(ifTrue, i * 8 + 2);
    bytes.writeUInt8(ifFalse, i * 8 + 3);
    bytes.writeUInt32LE(value >>> 0, i * 8 + 4);
  }
  return bytes;
}

const setFilter = 1;
/** Without this flag some kernels disable the processor's speculation for the process, which slows down all computation. */
const allowSpeculation = 4;

/** Applies the filter to the calling thread and everything that it starts. `pid`: the own process, the only one that may be signalled. */
export function applySeccomp({ call, addressOf }: SystemCalls, pid: number): void {
  const filter = seccompFilter(processor(), pid);
  const program = Buffer.alloc(16);
  program.writeUInt16LE(filter.length / 8, 0);
  program.writeBigUInt64LE(addressOf(filter), 8);
  setNoNewPrivileges(call);
  call(processors[processor()].seccomp, setFilter, allowSpeculation, program);
}
