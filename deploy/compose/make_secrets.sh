#!/usr/bin/env bash
# Writes what compose.yaml reads as secrets: a certificate authority with a certificate for each kind of server, and generated passwords and
# keys. Needs openssl. Writes nothing if the directory exists: a new key could not decrypt the secrets in the database.
#   make_secrets.sh [DIRECTORY] [NAME...]
# NAME: further host names and addresses (IP:192.0.2.7) at which clients reach the servers.
set -euo pipefail
umask 077

directory=${1:-$(dirname "$0")/secrets}
names=("${@:2}")
if [ -e "$directory" ]; then
  echo "$directory exists already; nothing was written" >&2
  exit 1
fi
# Complete or absent: a directory with some of the files would not be repaired.
work=$(mktemp -d "$directory.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

days=825
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Tabularium' \
  -addext 'basicConstraints=critical,CA:true,pathlen:0' -addext 'keyUsage=critical,keyCertSign,cRLSign' \
  -keyout ca.key -out ca.pem 2>openssl.log

# certificate FILE NAME...
certificate() {
  local file=$1 alternatives=''
  shift
  for name in "$@"; do
    case $name in
      IP:*) alternatives+="$name," ;;
      *) alternatives+="DNS:$name," ;;
    esac
  done
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$file.key" -out "$file.csr" 2>>openssl.log
  openssl x509 -req -in "$file.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" -out "$file.pem" \
    -extfile <(printf 'subjectAltName=%s\nbasicConstraints=critical,CA:false\nextendedKeyUsage=serverAuth,clientAuth\n' "${alternatives%,}") 2>>openssl.log
  rm "$file.csr"
}
certificate server server-1 server-2 localhost IP:127.0.0.1 "${names[@]}"
certificate postgres postgres
certificate clickhouse clickhouse-1 clickhouse-2 clickhouse-3 keeper-1 keeper-2 keeper-3 localhost

# Characters that need no encoding in a URL or in XML.
password() { openssl rand -hex 24; }
postgres_password=$(password)
clickhouse_password=$(password)
printf '%s' "$postgres_password" >postgres_password
printf '{"store": "postgres://tabularium:%s@postgres:5432/tabularium?sslmode=verify-full&sslrootcert=/run/secrets/ca.pem"}\n' \
  "$postgres_password" >tabularium_config.json
openssl rand -base64 32 >tabularium_secret_key
# For the request that creates the warehouse; no container reads it.
printf '%s' "$clickhouse_password" >clickhouse_password
cat >clickhouse_secrets.xml <<XML
<clickhouse>
  <tabularium_password_sha256>$(printf '%s' "$clickhouse_password" | openssl dgst -sha256 -r | cut -d' ' -f1)</tabularium_password_sha256>
  <cluster_secret>$(password)</cluster_secret>
  <interserver_password>$(password)</interserver_password>
</clickhouse>
XML

rm -f openssl.log ca.srl
# Each file is mounted by itself, and read by the user of its container. On this machine the directory protects them.
chmod 0444 ./*
chmod 0400 ca.key clickhouse_password
cd - >/dev/null
mv --no-target-directory "$work" "$directory"
trap - EXIT
echo "$directory: ca.pem is the authority that clients need; keep ca.key elsewhere"
