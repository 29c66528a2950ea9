// Why the certificate of a server is not accepted, for those who register the server: by the code of OpenSSL or Node.js
// only, because messages of servers and their addresses are for the log.

const codes =
  /^(?:CERT_\w+|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(?:GET|VERIFY)_\w+|INVALID_CA|HOSTNAME_MISMATCH)$/;
const causesMax = 8;

/** Undefined if the error is another one. */
export function certificateFaultOf(error: unknown): string | undefined {
  let cause = error;
  for (let depth = 0; depth < causesMax && cause instanceof Error; depth++) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `its certificate is for another host (${code})`;
    if (typeof code === 'string' && codes.test(code)) return `its certificate is not trusted (${code})`;
    cause = cause.cause;
  }
  return undefined;
}
