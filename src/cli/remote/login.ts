// `login`, `logout` and `profiles`: signs in to servers, and remembers their tokens in the configuration directory of the user.
import { hostname } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { Command, Option } from 'commander';
import { clientOver } from '../../client/client.ts';
import { randomId } from '../../client/random_id.ts';
import { Transport } from '../../client/transport.ts';
import { addServerOptions, type CallOptions, type Runtime } from './call_options.ts';
import { localUrl, serverUrl } from './connection.ts';
import { CommandError } from './exit_codes.ts';
import { countFrom, textOfFile } from './field_options.ts';
import { exactJson } from './output/value_text.ts';
import { type Environment, type Profile, profilesPath, readProfiles, writeProfiles } from './profiles.ts';

interface LoginOptions extends CallOptions {
  readonly user?: string;
  readonly passwordStdin?: boolean;
  readonly tokenStdin?: boolean;
  readonly days?: number;
}

const daysDefault = 90;
const daysMax = 3650;
const dayMs = 86_400_000;

export function loginCommand(runtime: Runtime, env: Environment): Command {
  const command = new Command('login').description(
    'Signs in to a server and stores a token for it in the profile: with a token, or with a user and a password, for which a token is created.',
  );
  addServerOptions(command)
    .option('--user <name>', 'sign in as this user, with a password')
    .option('--password-stdin', 'read the password from the standard input')
    .option('--token-stdin', 'read the token from the standard input')
    .addOption(
      new Option('--days <count>', 'how long the created token is valid').argParser(countFrom(1)).default(daysDefault),
    )
    .addHelpText('after', '\nExample:\n  tabularium login --url https://warehouse.example.com --user ada');
  return command.action(async () => {
    const options = command.opts<LoginOptions>();
    const { current, profiles } = readProfiles(env);
    const name = options.profile ?? (Object.keys(profiles).length === 0 ? 'default' : current);
    const url = serverUrl(options.url ?? (env.TABULARIUM_URL || (profiles[name]?.url ?? localUrl)));
    const token =
      options.user === undefined ? await givenToken(options) : await createdToken(url, options.user, options);
    const user = await userOf(url, token);
    const profile: Profile = { url, token, user };
    await writeProfiles(env, { current: name, profiles: { ...profiles, [name]: profile } });
    const output = runtime.output(options);
    if (options.json) await output.write(`${exactJson({ profile: name, url, user })}\n`);
    else
      await output.write(
        `Signed in to ${url} as ${user}; the profile ${JSON.stringify(name)} is in ${profilesPath(env)}.\n`,
      );
  });
}

/** Throws CommandError if the server does not know the token. */
async function userOf(url: string, token: string): Promise<string> {
  const { name } = await clientOver(new Transport({ url, token, retryForMs: 0 })).users.identify({});
  return name;
}

async function givenToken(options: LoginOptions): Promise<string> {
  if (options.tokenFile !== undefined) return textOfFile(options.tokenFile).trim();
  const token = options.tokenStdin ? textOfFile('-').trim() : await askedSecret('Token: ');
  if (token === '') throw new CommandError('usage', 'no token was given');
  return token;
}

/** Creates a token of the user, whose password is asked for and not stored. */
async function createdToken(
  url: string,
  user: string,
  { passwordStdin, days = daysDefault }: LoginOptions,
): Promise<string> {
  if (days > daysMax) throw new CommandError('usage', `--days must be at most ${daysMax}`);
  const password = passwordStdin ? textOfFile('-').replace(/\r?\n$/, '') : await askedSecret(`Password of ${user}: `);
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  const client = clientOver(new Transport({ url, headers: { authorization }, retryForMs: 0 }));
  const name = `command-line-${hostname().slice(0, 40)}-${randomId().slice(0, 8)}`;
  const expiresAt = new Date(Date.now() + days * dayMs).toISOString();
  const { secret } = await client.users(user).tokens.create({ name, expiresAt });
  if (secret === undefined)
    throw new CommandError('failed', 'the server created a token without its secret; try again');
  return secret;
}

/** Asks on the terminal without showing what is typed. */
async function askedSecret(question: string): Promise<string> {
  if (!process.stdin.isTTY)
    throw new CommandError(
      'usage',
      'no terminal to ask on: use --token-stdin, --token-file, or --user with --password-stdin',
    );
  process.stderr.write(question);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    return await lines.question('');
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

export function logoutCommand(runtime: Runtime, env: Environment): Command {
  const command = new Command('logout').description(
    'Removes a profile and its token from this machine. The token stays valid: `tokens delete` revokes it.',
  );
  addServerOptions(command).addHelpText('after', '\nExample:\n  tabularium logout --profile production');
  return command.action(async () => {
    const options = command.opts<CallOptions>();
    const { current, profiles } = readProfiles(env);
    const name = options.profile ?? current;
    const { [name]: removed, ...rest } = profiles;
    if (!removed) throw new CommandError('usage', `there is no profile ${JSON.stringify(name)}`);
    await writeProfiles(env, {
      current: name === current ? (Object.keys(rest)[0] ?? 'default') : current,
      profiles: rest,
    });
    const output = runtime.output(options);
    await output.write(
      options.json
        ? `${exactJson({ profile: name, removed: true })}\n`
        : `The profile ${JSON.stringify(name)} is removed.\n`,
    );
  });
}

export function profilesCommand(runtime: Runtime, env: Environment): Command {
  const command = new Command('profiles').description('Lists the profiles, or selects the one that commands use.');
  command.argument('[name]', 'select this profile');
  addServerOptions(command).addHelpText('after', '\nExample:\n  tabularium profiles production');
  return command.action(async (name: string | undefined) => {
    const options = command.opts<CallOptions>();
    const read = readProfiles(env);
    if (name !== undefined) {
      if (!Object.hasOwn(read.profiles, name))
        throw new CommandError('usage', `there is no profile ${JSON.stringify(name)}`);
      await writeProfiles(env, { ...read, current: name });
    }
    const current = name ?? read.current;
    const shown = Object.entries(read.profiles).map(([each, { url, user }]) => ({
      profile: each,
      url,
      user,
      current: each === current,
    }));
    const lines = shown.map(
      ({ profile, url, user, current: isCurrent }) => `${isCurrent ? '*' : ' '} ${profile}  ${url}  ${user}\n`,
    );
    const none = 'There are no profiles; tabularium login creates one.\n';
    await runtime.output(options).write(options.json ? `${exactJson(shown, 2)}\n` : lines.join('') || none);
  });
}
