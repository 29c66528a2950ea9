// The first principal: `root`, with a token made at the first start and kept in the data directory, mode 0600. Users, roles
// and their grants are to come beside it; who asks `authenticate` and `authorise` need not change for that.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { chmod, link, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Principal } from '../model/principal.ts';
import type { Permission } from '../standard/endpoint.ts';
import { Failure } from '../standard/failure.ts';
import type { Segment } from '../standard/paths.ts';

export const rootTokenFileName = 'root.token';
/** Recognisable to secret scanners; 256 random bits follow. */
const tokenPrefix = 'tbl_root_';
const authorizationHeaderCharactersMax = 8192;
const bearer = 'Bearer ';

export interface Access {
  /** Throws UNAUTHENTICATED. */
  authenticate(authorization: string | undefined): Principal;
  /** Throws FORBIDDEN. `segments` is the object, or the holder of the collection, that the permission is needed on. */
  authorise(principal: Principal, permission: Permission, segments: readonly Segment[]): void;
}

/** Reads the token, or makes it. The file is whole or not there: it is written under another name and linked. */
export async function rootToken(dataDirectory: string): Promise<string> {
  const path = join(dataDirectory, rootTokenFileName);
  const read = async () => (await readFile(path, 'utf8')).trim();
  try {
    return await checked(await read(), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  const token = tokenPrefix + randomBytes(32).toString('base64url');
  const draft = `${path}.${process.pid}`;
  const file = await open(draft, 'w', 0o600);
  try {
    await file.writeFile(`${token}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await chmod(draft, 0o600);
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(draft);
  return checked(await read(), path);
}

async function checked(token: string, path: string): Promise<string> {
  if (token.length < 32) throw new Error(`${path} holds no usable token; remove it to have a new one made`);
  return token;
}

export function rootAccess(token: string): Access {
  const root: Principal = { name: 'root' };
  const expected = Buffer.from(token);
  const given = Buffer.alloc(expected.length);
  // The length is no secret. Compared as they are: digests of both, on every request, would cost a tenth of a GET's time.
  const matches = (secret: string) => {
    if (Buffer.byteLength(secret) !== expected.length) return false;
    given.write(secret);
    return timingSafeEqual(given, expected);
  };
  const unauthenticated = (message: string) => new Failure('UNAUTHENTICATED', message);
  return {
    authenticate(authorization) {
      if (authorization === undefined || authorization === '') throw unauthenticated('credentials are missing');
      if (authorization.length > authorizationHeaderCharactersMax)
        throw unauthenticated('the Authorization header is too long');
      // The usual form, without taking it apart.
      if (authorization.startsWith(bearer) && matches(authorization.slice(bearer.length))) return root;
      const [, scheme = '', value = ''] = /^([A-Za-z]+) +([\x21-\x7e]+)$/.exec(authorization) ?? [];
      switch (scheme.toLowerCase()) {
        case 'bearer':
          if (!matches(value)) throw unauthenticated('the token is not valid');
          return root;
        case 'basic': {
          const decoded = /^[A-Za-z0-9+/]+={0,2}$/.test(value) ? Buffer.from(value, 'base64').toString() : '';
          const colon = decoded.indexOf(':');
          // Both are compared always, so that a wrong name and a wrong password take the same time.
          const secretFits = matches(decoded.slice(colon + 1));
          if (colon < 0 || decoded.slice(0, colon) !== root.name || !secretFits) {
            throw unauthenticated('the user name or password is not valid');
          }
          return root;
        }
        default:
          throw unauthenticated('the Authorization header is neither "Bearer <token>" nor "Basic <base64>"');
      }
    },
    authorise(principal, permission) {
      if (principal.name === root.name) return;
      throw new Failure('FORBIDDEN', `this needs the privilege ${permission.privilege}`);
    },
  };
}
