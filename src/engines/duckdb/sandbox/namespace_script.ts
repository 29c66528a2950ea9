// What is done in the engine's new namespaces before the engine begins: a root that holds its program, read-only, and the
// directories that it writes. Which those are, and how it is started, is confinement.ts's.

/**
 * Arguments: the data directory; paths to be read; `--`; directories to be written; `--`; the command. All programs are those of
 * util-linux and coreutils. The new root is made over /sys: every Linux has it, and no file of the engine is below it.
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
# Of the processes only this one, which becomes the engine and keeps its id.
mkdir -p "proc/$$"
mount --rbind "/proc/$$" "proc/$$"
ln -s "$$" proc/self
ln -s self/net proc/net
# Below a path that is read, the rest of what the server keeps would be seen.
if [ -e ".$data" ]; then mount -t tmpfs -o size=1m,mode=755 engine ".$data"; fi
for path do
  [ "$path" != -- ] || break
  place "$path"
done
pivot_root . sys
umount -l sys
cd /

# A namespace may not take away the flags that a mount came with: they are said again.
while read -r _ _ _ _ point options _; do
  # A blank is written \\040, which printf wants as \\0040: a digit may follow it.
  case $point in *\\\\*) point=$(printf '%b' "$(printf '%s' "$point" | sed 's/\\\\\\([0-7]\\)/\\\\0\\1/g')") ;; esac
  for path do
    if [ "$path" = -- ]; then
      case $options in rw*) mount -o "remount,bind,ro\${options#rw}" "$point" ;; esac
      break
    fi
    case $point in "$path" | "$path"/*) break ;; esac
  done
done </proc/self/mountinfo

# Without the rights of root, files of another user cannot be written.
while [ "$1" != -- ]; do
  for file in "$1" "$1"/*; do
    if [ -e "$file" ] && [ ! -w "$file" ]; then
      echo 'the data belongs to another user' >&2
      exit 1
    fi
  done
  shift
done
shift
exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all --bounding-set=-all --pdeathsig KILL -- "$@"
`;
