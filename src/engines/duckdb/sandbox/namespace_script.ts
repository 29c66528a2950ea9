// The script that runs in the engine's new namespaces before the engine starts: creates a root that contains its program,
// read-only, and the directories that it writes. See sandbox.ts for the paths and the start.
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

export interface NamespacePaths {
  /** The data directory, which contains files that the engine must not see. */
  readonly data: string;
  /** Existing files and directories. None is below another one. */
  readonly readable: readonly string[];
  /** Existing directories. */
  readonly writable: readonly string[];
}

/** Options of a mount that a namespace may not remove from mounts that it inherited. */
const lockedOptions = /^(?:nosuid|nodev|noexec|noatime|nodiratime|relatime)$/;
/** The new root is mounted here: it exists on every Linux and contains no file of the engine. */
const newRoot = '/sys';

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const words = (texts: readonly string[]) => texts.map(quoted).join(' ');
const placeOf = (path: string) => `.${path}`;

/**
 * Becomes the command in its arguments. All programs are from util-linux and coreutils; they are few, because starting programs is most
 * of what the script costs.
 */
export function namespaceScript({ data, readable, writable }: NamespacePaths): string {
  const mounts = mountsOf(readFileSync('/proc/self/mountinfo', 'utf8'));
  const files = readable.filter((path) => !statSync(path).isDirectory());
  const directories = readable.map((path) => (files.includes(path) ? dirname(path) : path));
  return `set -eu
PATH=$PATH:/usr/sbin:/sbin
ulimit -c 0
mount -t tmpfs -o size=1m,mode=755 engine ${newRoot}
cd ${newRoot}
mkdir -p sys "proc/$$" ${words([...new Set(directories)].map(placeOf))}
for file in ${words(files.map(placeOf))}; do : >"$file"; done
# Of all processes, only this one is visible: it becomes the engine and keeps its id.
printf '%s\\n' ${words(readable.map((path) => bindEntry(path, mounts)))} "/proc/$$ ${newRoot}/proc/$$ none ${bindOptions('/proc', mounts)} 0 0" >fstab
mount -a -T ${newRoot}/fstab
rm fstab
ln -s "$$" proc/self
ln -s self/net proc/net
# Otherwise the rest of the data directory would be visible if it lies below a readable path.
if [ -e ${quoted(placeOf(data))} ]; then mount -t tmpfs -o size=1m,mode=755 engine ${quoted(placeOf(data))}; fi
mkdir -p ${words(writable.map(placeOf))}
${writable.map((path) => `mount --rbind ${quoted(path)} ${quoted(placeOf(path))}`).join('\n')}
pivot_root . sys
umount -l sys
cd /

# Mounts that are not read-only yet: the root and mounts below readable paths. A namespace may not remove the options of an inherited
# mount: they are repeated.
while read -r _ _ _ _ point options _; do
  case $options in rw*) ;; *) continue ;; esac
  # A space is written \\040, which printf wants as \\0040: a digit may follow it.
  case $point in *\\\\*) point=$(printf '%b' "$(printf '%s' "$point" | sed 's/\\\\\\([0-7]\\)/\\\\0\\1/g')") ;; esac
  case $point in
    ${writable.map((path) => `${quoted(path)} | ${quoted(path)}/*`).join(' | ')}) ;;
    *) mount -o "remount,bind,ro\${options#rw}" "$point" ;;
  esac
done </proc/self/mountinfo

# Without the privileges of root, files of another user cannot be written.
for directory in ${words(writable)}; do
  for file in "$directory" "$directory"/*; do
    if [ -e "$file" ] && [ ! -w "$file" ]; then
      echo 'the data directory belongs to another user' >&2
      exit 1
    fi
  done
done
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all --pdeathsig KILL -- "$@"
`;
}

interface Mount {
  readonly point: string;
  readonly options: readonly string[];
}

/** In fstab(5) and in /proc/self/mountinfo, characters that separate fields are written as octal numbers. */
const escaped = (path: string) =>
  path.replace(/[\s\\]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);

function mountsOf(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [, , , , point, options] = line.split(' ');
    return point === undefined || options === undefined ? [] : [{ point, options: options.split(',') }];
  });
}

/** The line of an fstab that mounts the path in the new root. */
const bindEntry = (path: string, mounts: readonly Mount[]) =>
  [escaped(path), escaped(newRoot + path), 'none', bindOptions(path, mounts), '0', '0'].join(' ');

/** Read-only, with the options of the mount that contains the path. */
function bindOptions(path: string, mounts: readonly Mount[]): string {
  const real = escaped(realpathSync(path));
  const containing = mounts
    .filter(({ point }) => point === '/' || real === point || real.startsWith(`${point}/`))
    .reduce<Mount | undefined>(
      (best, mount) => (best && best.point.length > mount.point.length ? best : mount),
      undefined,
    );
  const locked = (containing?.options ?? []).filter((option) => lockedOptions.test(option));
  return ['rbind', 'ro', ...locked].join(',');
}
