// The script that runs in the engine's new namespaces before the engine starts: creates a root that contains its program,
// read-only, and the directories that it writes. See sandbox.ts for the paths and the start.

/**
 * Arguments: the data directory; paths to read; `--`; directories to write; `--`; the command. All programs are from util-linux and
 * coreutils. The new root is mounted on /sys, which exists on every Linux and contains no file of the engine.
 */
export const namespaceScript = `set -eu
PATH=$PATH:/usr/sbin:/sbin
ulimit -c 0
data=$1
shift

place() {
  if [ -d "$1" ]; then
    mkdir -p ".$1"
  else
    mkdir -p ".\${1%/*}"
    : >".$1"
  fi
  mount --rbind "$1" ".$1"
}
mount -t tmpfs -o size=1m,mode=755 engine /sys
cd /sys
mkdir -p sys
while [ "$1" != -- ]; do
  place "$1"
  shift
done
shift
# Of all processes, only this one is visible: it becomes the engine and keeps its id.
mkdir -p "proc/$$"
mount --rbind "/proc/$$" "proc/$$"
ln -s "$$" proc/self
ln -s self/net proc/net
# Otherwise the rest of the data directory would be visible if it lies below a readable path.
if [ -e ".$data" ]; then mount -t tmpfs -o size=1m,mode=755 engine ".$data"; fi
for path do
  [ "$path" != -- ] || break
  place "$path"
done
pivot_root . sys
umount -l sys
cd /

# A namespace may not remove the flags of an inherited mount: they are repeated.
while read -r _ _ _ _ point options _; do
  # A space is written \\040, which printf wants as \\0040: a digit may follow it.
  case $point in *\\\\*) point=$(printf '%b' "$(printf '%s' "$point" | sed 's/\\\\\\([0-7]\\)/\\\\0\\1/g')") ;; esac
  for path do
    if [ "$path" = -- ]; then
      case $options in rw*) mount -o "remount,bind,ro\${options#rw}" "$point" ;; esac
      break
    fi
    case $point in "$path" | "$path"/*) break ;; esac
  done
done </proc/self/mountinfo

# Without the privileges of root, files of another user cannot be written.
while [ "$1" != -- ]; do
  for file in "$1" "$1"/*; do
    if [ -e "$file" ] && [ ! -w "$file" ]; then
      echo 'the data directory belongs to another user' >&2
      exit 1
    fi
  done
  shift
done
shift
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all --pdeathsig KILL -- "$@"
`;
